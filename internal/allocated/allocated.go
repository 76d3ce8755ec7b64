// Package allocated knows how many bytes the process holds on each device that it has
// open, through whichever set. Package device registers the devices; package pipeline
// reads how much of a budget is left.
package allocated

import "sync"

var devices struct {
	sync.Mutex
	bytes map[string]func() int64 // by the device's name
}

// Register has Bytes call bytes for the device of that name, from now until Remove.
func Register(name string, bytes func() int64) {
	devices.Lock()
	defer devices.Unlock()
	if devices.bytes == nil {
		devices.bytes = map[string]func() int64{}
	}
	devices.bytes[name] = bytes
}

// Remove ends what Register began. The function that was registered is not running, and
// is not called again, when Remove returns.
func Remove(name string) {
	devices.Lock()
	defer devices.Unlock()
	delete(devices.bytes, name)
}

// Bytes returns how many bytes the process holds on the device of that name, as
// device.Resolve gives it; 0 if the device isn't open.
func Bytes(name string) int64 {
	devices.Lock()
	defer devices.Unlock()
	if bytes := devices.bytes[name]; bytes != nil {
		return bytes()
	}
	return 0
}
