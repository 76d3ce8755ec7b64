package driver

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Alloc returns a zeroed *Buffer in the GPU's memory, aligned to 256 bytes. The error is a
// device.ErrOutOfMemory if there is not enough memory.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: can't allocate a buffer of %d bytes", d.name, bytes)
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
	d.held += bytes // can't overflow, since there is memory for every buffer
	d.buffers++
	d.mu.Unlock()
	b := &Buffer{device: d, size: bytes}
	b.address.Store(uint64(address))
	return b, nil
}

// alloc returns the address of zeroed memory on the GPU.
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
		_ = v.calls.StreamSynchronize(d.zeroer) // nothing may write to the memory when it is freed
		_ = v.calls.MemFree(address)
		return 0, err
	}
	return address, nil
}

// tooMuch adds to an error of bytes that could not be allocated how much was allocated
// before.
func (d *Device) tooMuch(e *Error, bytes int64) {
	e.Detail = fmt.Sprintf("%s were asked for, Leat has allocated %s", device.FormatSize(bytes), device.FormatSize(d.Allocated()))
}

// Buffer is memory of a GPU. It implements device.Addressable.
type Buffer struct {
	device  *Device
	address atomic.Uint64 // 0 after Free
	size    int64
}

// Device returns the *Device.
func (b *Buffer) Device() device.Device { return b.device }

// Size returns the size in bytes that was passed to Alloc.
func (b *Buffer) Size() int64 { return b.size }

// Bytes returns nil, because the host can't access the GPU's memory.
func (b *Buffer) Bytes() []byte { return nil }

// Address returns the address of the first byte in the GPU's address space, or 0 after
// Free.
func (b *Buffer) Address() uint64 { return b.address.Load() }

// Free releases the memory. Further calls have no effect. If the GPU is lost, Free returns
// no error, since the memory is released with the GPU's context.
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
	return d.free(func(c Calls) *Error { return c.MemFree(uintptr(address)) })
}

// free calls the function to free memory, and drops one use of the device.
func (d *Device) free(free func(Calls) *Error) error {
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

// AllocHost returns a zeroed *HostBuffer of page-locked host memory, to and from which the
// queues of every GPU of the driver copy asynchronously. Systems limit the amount of such
// memory, so it should be used only for what is copied often.
func (d *Device) AllocHost(bytes int64) (device.Buffer, error) {
	if bytes < 0 || bytes > math.MaxInt {
		return nil, fmt.Errorf("%s: can't allocate %d bytes of pinned memory", d.name, bytes)
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

// pin returns zeroed page-locked host memory, which unpin frees. bytes must be positive.
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
	return d.free(func(c Calls) *Error { return c.HostFree(unsafe.Pointer(unsafe.SliceData(mem))) })
}

func (d *Device) allocHost(bytes int64) ([]byte, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return nil, err
	}
	mem, failed := v.calls.HostAlloc(bytes) // the driver's memory, unknown to Go's collector
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

// HostBuffer is page-locked host memory. It implements device.Buffer. Its Bytes are the
// host's side of a queue's Upload and Download; it is not itself memory of the GPU.
type HostBuffer struct {
	device *Device
	mem    []byte // at least one byte
	size   int64
	freed  atomic.Bool
}

// Device returns the *Device that allocated the buffer.
func (b *HostBuffer) Device() device.Device { return b.device }

// Size returns the size in bytes that was passed to AllocHost.
func (b *HostBuffer) Size() int64 { return b.size }

// Bytes returns the memory, or nil after Free.
func (b *HostBuffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	return b.mem[:b.size:b.size]
}

// Free releases the memory. Slices that Bytes returned must not be used afterwards. Further
// calls have no effect.
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
