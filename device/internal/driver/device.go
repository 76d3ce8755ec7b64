package driver

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/leat-dev/leat/device"
)

// Device is a GPU. It implements device.Device, device.Programmable, device.Pinner,
// device.Copier and device.Peer.
type Device struct {
	*gpu
	info   device.Info
	zeroer uintptr // the stream on which new memory is cleared

	mu      sync.Mutex // guards what follows
	held    int64      // bytes of buffers not yet freed
	buffers int        // how many they are
	pinned  int        // buffers of host memory not yet freed
	users   int        // all that still needs the context: buffers, streams
	closed  bool

	reaching sync.Mutex    // guards reached
	reached  map[*gpu]bool // whether this GPU reads another's memory

	loading  sync.Mutex // guards programs
	programs map[[sha256.Size]byte]*Program
}

// open takes part in the context of the GPU that has the handle.
func open(d Driver, handle int32, info device.Info) (*Device, error) {
	g, err := retain(d, info.Name, handle)
	if err != nil {
		return nil, err
	}
	own := &Device{
		gpu:      g,
		info:     info,
		programs: map[[sha256.Size]byte]*Program{},
		reached:  map[*gpu]bool{},
	}
	if own.info.Free, own.info.Memory, err = g.memory(); err == nil {
		own.zeroer, err = own.newStream()
	}
	if err != nil {
		_ = g.release() // the first error tells more
		return nil, err
	}
	return own, nil
}

// Info describes the GPU, its free memory as it was when it was opened. The slices
// are not to be changed.
func (d *Device) Info() device.Info { return d.info }

// Allocated returns the bytes asked for in buffers that are not yet freed. Pinned
// host memory isn't among them.
func (d *Device) Allocated() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Close unloads the programs and leaves the GPU's context. Buffers that nobody freed
// stay valid, since somebody may still use them, and are an error that says how many
// they are; then, and while queues or transfers aren't closed, the context stays
// until the last of them is gone. A second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	buffers, held, pinned, users := d.buffers, d.held, d.pinned, d.users
	d.mu.Unlock()
	var err error
	if users == 0 {
		err = d.end()
	}
	if buffers+pinned > 0 {
		return fmt.Errorf("%s: closed with %d buffers of %s in all and %d of pinned memory not freed",
			d.name, buffers, device.FormatSize(held), pinned)
	}
	if users > 0 {
		return fmt.Errorf("%s: closed before its queues", d.name)
	}
	return err
}

// end gives back what the closed device has. Of a lost GPU nothing can be had back
// but with the context, and its errors were told.
func (d *Device) end() error {
	var first error
	keep := func(err error) {
		if first == nil && d.lost.Load() == nil {
			first = err
		}
	}
	func() {
		v := d.visit()
		defer v.leave()
		keep(v.enter())
		for _, p := range d.programs {
			keep(d.check(v.calls.ModuleUnload(p.module)))
		}
		keep(d.check(v.calls.StreamDestroy(d.zeroer)))
	}()
	keep(d.release())
	return first
}

// use counts something that needs the context, until drop.
func (d *Device) use(what string) error {
	if err := d.Lost(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("%s: %s: the device is closed", d.name, what)
	}
	d.users++
	return nil
}

// drop undoes use. The last one of a closed device ends it.
func (d *Device) drop() error {
	d.mu.Lock()
	d.users--
	last := d.closed && d.users == 0
	d.mu.Unlock()
	if last {
		return d.end()
	}
	return nil
}

// newStream returns a stream of the GPU that isn't ordered with any other.
func (d *Device) newStream() (uintptr, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, err
	}
	stream, err := v.calls.StreamCreate()
	return stream, d.check(err)
}
