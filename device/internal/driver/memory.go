package driver

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Alloc returns a zeroed buffer of the GPU's memory, aligned to 256 bytes. What goes
// beyond its memory is device.ErrOutOfMemory.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: a buffer of %d bytes", d.name, bytes)
	}
	if err := d.use("a buffer of " + device.FormatSize(bytes)); err != nil {
		return nil, err
	}
	address, err := d.alloc(max(bytes, 1))
	if err != nil {
		_ = d.drop() // the first error tells more
		return nil, err
	}
	d.mu.Lock()
	d.held += bytes // each is backed by memory: their sum can't overflow
	d.buffers++
	d.mu.Unlock()
	b := &Buffer{device: d, size: bytes}
	b.address.Store(uint64(address))
	return b, nil
}

// alloc returns zeroed memory.
func (d *Device) alloc(bytes int64) (uintptr, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, err
	}
	address, failed := v.calls.MemAlloc(bytes)
	if failed != nil && failed.OutOfMemory {
		d.tooMuch(failed, bytes)
		if free, total, err := d.memory(); err == nil {
			failed.Detail += fmt.Sprintf(", %s of %s are free", device.FormatSize(free), device.FormatSize(total))
		}
	}
	if err := d.check(failed); err != nil {
		return 0, err
	}
	err := d.check(v.calls.Zero(address, bytes, d.zeroer))
	if err == nil {
		err = d.check(v.calls.StreamSynchronize(d.zeroer))
	}
	if err != nil {
		_ = v.calls.StreamSynchronize(d.zeroer) // nothing may write to it any more
		_ = v.calls.MemFree(address)
		return 0, err
	}
	return address, nil
}

// tooMuch adds to an error why memory couldn't be had.
func (d *Device) tooMuch(e *Error, bytes int64) {
	e.Detail = fmt.Sprintf("%s asked for, Leat holds %s", device.FormatSize(bytes), device.FormatSize(d.Allocated()))
}

// Buffer is memory of a GPU. It implements device.Addressable.
type Buffer struct {
	device  *Device
	address atomic.Uint64 // 0: freed
	size    int64
}

// Device returns the *Device.
func (b *Buffer) Device() device.Device { return b.device }

// Size returns the bytes asked for.
func (b *Buffer) Size() int64 { return b.size }

// Bytes returns nil: the host can't reach the memory.
func (b *Buffer) Bytes() []byte { return nil }

// Address returns the first byte's address on the GPU, 0 after Free.
func (b *Buffer) Address() uint64 { return b.address.Load() }

// Free gives the memory back. A second Free does nothing. On a GPU that was lost
// there is nothing to give back, and no error.
func (b *Buffer) Free() error {
	address := b.address.Swap(0)
	if address == 0 {
		return nil
	}
	d := b.device
	d.mu.Lock()
	d.held -= b.size
	d.buffers--
	d.mu.Unlock()
	return d.giveBack(func(c Calls) *Error { return c.MemFree(uintptr(address)) })
}

// giveBack has memory freed and drops its use.
func (d *Device) giveBack(free func(Calls) *Error) error {
	err := func() error {
		v := d.visit()
		defer v.leave()
		if err := v.enter(); err != nil {
			return err
		}
		return d.check(free(v.calls))
	}()
	if d.lost.Load() != nil {
		err = nil
	}
	if e := d.drop(); err == nil {
		err = e
	}
	return err
}

// AllocHost returns a zeroed buffer of the host's memory that stays in place, so
// that queues of every GPU copy to and from it while the host goes on. The system
// has little of it to give: it is for what is copied all the time.
func (d *Device) AllocHost(bytes int64) (device.Buffer, error) {
	if bytes < 0 || bytes > math.MaxInt {
		return nil, fmt.Errorf("%s: pinned memory of %d bytes", d.name, bytes)
	}
	mem, err := d.pin(max(bytes, 1))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.pinned++
	d.mu.Unlock()
	return &HostBuffer{device: d, mem: mem, size: bytes}, nil
}

// pin returns zeroed host memory that stays in place, until unpin.
func (d *Device) pin(bytes int64) ([]byte, error) {
	if err := d.use("pinned memory of " + device.FormatSize(bytes)); err != nil {
		return nil, err
	}
	mem, err := d.allocHost(bytes)
	if err != nil {
		_ = d.drop() // the first error tells more
	}
	return mem, err
}

func (d *Device) unpin(mem []byte) error {
	return d.giveBack(func(c Calls) *Error { return c.HostFree(unsafe.Pointer(unsafe.SliceData(mem))) })
}

func (d *Device) allocHost(bytes int64) ([]byte, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return nil, err
	}
	mem, failed := v.calls.HostAlloc(bytes) // of the driver, not of Go
	if failed != nil && failed.OutOfMemory {
		d.tooMuch(failed, bytes)
	}
	if err := d.check(failed); err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(mem), bytes)
	clear(b)
	return b, nil
}

// HostBuffer is pinned memory of the host. It implements device.Buffer, but isn't
// memory of the GPU: queues take its Bytes.
type HostBuffer struct {
	device *Device
	mem    []byte // at least a byte
	size   int64
	freed  atomic.Bool
}

// Device returns the *Device that it was asked of.
func (b *HostBuffer) Device() device.Device { return b.device }

// Size returns the bytes asked for.
func (b *HostBuffer) Size() int64 { return b.size }

// Bytes returns the memory, nil after Free.
func (b *HostBuffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	return b.mem[:b.size:b.size]
}

// Free gives the memory back. Slices of Bytes must not be used any more. A second
// Free does nothing.
func (b *HostBuffer) Free() error {
	if b.freed.Swap(true) {
		return nil
	}
	d := b.device
	d.mu.Lock()
	d.pinned--
	d.mu.Unlock()
	return d.unpin(b.mem)
}
