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
	zeroer uintptr // the stream on which new memory is zeroed

	mu      sync.Mutex // guards the fields below
	held    int64      // the total size in bytes of the buffers not yet freed
	buffers int        // the number of these buffers
	pinned  int        // the number of buffers of host memory not yet freed
	users   int        // the number of buffers, queues and the like that need the context
	closed  bool

	reaching sync.Mutex    // guards reached
	reached  map[*gpu]bool // whether this GPU can read another's memory, if known

	loading  sync.Mutex // guards programs
	programs map[[sha256.Size]byte]*Program
}

// open opens the GPU with the given handle of the driver.
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

// Info describes the GPU. Free is the memory that was free when it was opened. The caller
// must not modify the slices.
func (d *Device) Info() device.Info { return d.info }

// Allocated returns the total size in bytes of the buffers not yet freed. Pinned host memory
// is not included.
func (d *Device) Allocated() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Close unloads the programs and releases the GPU's context. If there are buffers that were
// not freed, or queues or transfers that were not closed, it returns an error that says so.
// In that case they remain valid, since they may still be in use, and the context is
// released when the last of them is freed or closed. Further calls have no effect.
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
		return fmt.Errorf("%s: closed before %d buffers of %s in total and %d of pinned memory were freed",
			d.name, buffers, device.FormatSize(held), pinned)
	}
	if users > 0 {
		return fmt.Errorf("%s: closed before its queues were closed", d.name)
	}
	return err
}

// end releases the resources of a closed device. If the GPU is lost, end ignores errors:
// the loss was reported, and the resources are released with the context.
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

// use counts one more user of the context, until drop. It fails if the device is closed or
// the GPU is lost; what names the user in that error.
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

// drop undoes use. It releases the context of a closed device that has no users left.
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

// newStream returns a new stream, which is not ordered with any other stream.
func (d *Device) newStream() (uintptr, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, err
	}
	stream, err := v.calls.StreamCreate()
	return stream, d.check(err)
}
