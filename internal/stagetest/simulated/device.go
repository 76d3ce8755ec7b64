// Package simulated has devices and layers for tests of scheduling. A layer occupies its device
// for t(n) = a + b·n for a batch of n rows, and computes little, but something that can be checked.
// Under testing/synctest that time passes immediately, so that a schedule for many devices can be
// measured on one core, to the nanosecond.
//
// Importing the package registers the devices as metal:0, metal:1 and so on.
package simulated

import (
	"fmt"
	"sync/atomic"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// kind is a kind of device for which no test binary has another backend.
const kind = device.Metal

func init() {
	device.Register(backend{})
	kernels.Register(arithmetic{})
}

// Name returns the name of device i.
func Name(i int) string { return fmt.Sprintf("%v:%d", kind, i) }

// Place returns the entry of a device list for device i. It has a speed, so that the device's speed
// is not measured.
func Place(i int) string { return Name(i) + "@1" }

type backend struct{}

func (backend) Kind() device.Kind { return kind }

// Discover returns no devices, so that "auto" doesn't include simulated ones.
func (backend) Discover() ([]device.Info, error) {
	return nil, device.Unavailable{Kind: kind, Reason: "simulated devices are named one by one"}
}

func (backend) Resolve(name string, _ int) ([]device.Info, error) {
	var i int
	if n, err := fmt.Sscanf(name, kind.String()+":%d", &i); n != 1 || err != nil || name != Name(i) {
		return nil, &device.ListError{Entry: name, Reason: "a simulated device is called " + Name(0)}
	}
	return []device.Info{{Name: name, Kind: kind, Description: "simulated", HostMemory: true}}, nil
}

func (b backend) Open(name string) (device.Device, error) {
	infos, err := b.Resolve(name, 0)
	if err != nil {
		return nil, err
	}
	return &simulated{info: infos[0], turn: make(chan struct{}, 1)}, nil
}

// simulated is a device whose buffers are in the host's memory.
type simulated struct {
	info device.Info
	held atomic.Int64
	turn chan struct{} // full while a queue has the device; not a mutex, which would stop simulated time
}

func (d *simulated) Info() device.Info { return d.info }
func (d *simulated) Allocated() int64  { return d.held.Load() }

func (d *simulated) NewQueue() (device.Queue, error) { return &queue{device: d}, nil }

func (d *simulated) Alloc(bytes int64) (device.Buffer, error) {
	d.held.Add(bytes)
	return &buffer{device: d, mem: make([]byte, bytes)}, nil
}

func (d *simulated) Close() error {
	if held := d.held.Load(); held != 0 {
		return fmt.Errorf("%s: closed with %d bytes not freed", d.info.Name, held)
	}
	return nil
}

type buffer struct {
	device *simulated
	mem    []byte
}

func (b *buffer) Device() device.Device { return b.device }
func (b *buffer) Size() int64           { return int64(len(b.mem)) }
func (b *buffer) Bytes() []byte         { return b.mem }

func (b *buffer) Free() error {
	b.device.held.Add(-int64(len(b.mem)))
	b.mem = nil
	return nil
}
