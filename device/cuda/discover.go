package cuda

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// oldestMajor and oldestMinor are the compute capability that the kernels need.
const oldestMajor, oldestMinor = 7, 5

// count returns how many GPUs the driver has.
func (d *driver) count() (int, error) {
	c := caller{driver: d}
	var n int32
	if code := c.fill(cuDeviceGetCount, uintptr(unsafe.Pointer(&n))); code != success {
		return 0, d.fault("", cuDeviceGetCount, code, "")
	}
	return int(n), nil
}

// look describes GPU i of count with its free memory, for which it needs a context
// for a moment. That of a device that is open is used again.
func (d *driver) look(i, count int) (device.Info, error) {
	info, ordinal, err := d.describe(i, count)
	if err != nil {
		return info, err
	}
	p, err := d.retain(info.Name, ordinal)
	if err != nil {
		return info, err
	}
	info.Free, info.Memory, err = p.memory()
	if e := p.release(); err == nil {
		err = e
	}
	return info, err
}

// describe says what can be said of GPU i of count without a context, and returns
// the driver's handle of it.
func (d *driver) describe(i, count int) (info device.Info, ordinal int32, err error) {
	info = device.Info{Name: nameOf(i), Kind: device.CUDA}
	var of struct {
		ordinal, major, minor int32
		total                 uint64
		name                  [256]byte
		bus                   [32]byte
	}
	q := questions{caller: caller{driver: d}, device: info.Name}
	q.ask(cuDeviceGet, uintptr(unsafe.Pointer(&of.ordinal)), uintptr(i))
	gpu := uintptr(of.ordinal)
	q.ask(cuDeviceGetName, uintptr(unsafe.Pointer(&of.name)), uintptr(len(of.name)), gpu)
	q.ask(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&of.major)), attributeCapabilityMajor, gpu)
	q.ask(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&of.minor)), attributeCapabilityMinor, gpu)
	q.ask(cuDeviceTotalMem, uintptr(unsafe.Pointer(&of.total)), gpu)
	q.ask(cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&of.bus)), uintptr(len(of.bus)), gpu)
	if q.err != nil {
		return info, 0, q.err
	}
	info.Memory = int64(of.total)
	info.Description = fmt.Sprintf("%s, compute capability %d.%d, PCI %s",
		until0(of.name[:]), of.major, of.minor, until0(of.bus[:]))
	if of.major < oldestMajor || of.major == oldestMajor && of.minor < oldestMinor {
		return info, 0, fmt.Errorf("%s: %s: Leat needs compute capability %d.%d or higher",
			info.Name, info.Description, oldestMajor, oldestMinor)
	}
	info.Peers = d.peers(i, count, of.ordinal)
	return info, of.ordinal, nil
}

// questions are calls of which the first that fails ends the rest.
type questions struct {
	caller
	device string
	err    error
}

// ask calls a function, as caller.fill does.
//
//go:uintptrescapes
func (q *questions) ask(s symbol, args ...uintptr) {
	if q.err != nil {
		return
	}
	if code := q.call(s, args...); code != success {
		q.err = q.driver.fault(q.device, s, code, "")
	}
}

// peers returns the names of the GPUs whose memory GPU i can read. One that the driver
// can't tell of is none: that it is sick is no fault of GPU i.
func (d *driver) peers(i, count int, ordinal int32) (names []string) {
	c := caller{driver: d}
	for j := range count {
		if j == i {
			continue
		}
		var other int32
		if c.fill(cuDeviceGet, uintptr(unsafe.Pointer(&other)), uintptr(j)) != success {
			continue
		}
		if reach, err := d.reaches(nameOf(i), ordinal, other); err == nil && reach {
			names = append(names, nameOf(j))
		}
	}
	return names
}

// reaches says whether a GPU can read the other's memory.
func (d *driver) reaches(name string, ordinal, other int32) (bool, error) {
	c := caller{driver: d}
	var can int32
	code := c.fill(cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), uintptr(ordinal), uintptr(other))
	if code != success {
		return false, d.fault(name, cuDeviceCanAccessPeer, code, "")
	}
	return can != 0, nil
}
