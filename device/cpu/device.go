package cpu

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/leat-dev/leat/device"
)

// Device is a group of cores. It implements device.Device.
type Device struct {
	info device.Info
	team *team

	visit  sync.Mutex // held from a queue's Begin to its End
	pinned bool       // whether threads are pinned: helpers to their cores, callers to core
	core   coreMask   // the device's first core

	mu      sync.Mutex // guards the fields below
	held    int64      // the total size in bytes of the buffers not yet freed
	buffers int        // the number of these buffers
	closed  bool
}

// open returns a device with the cores of info. pinned determines whether its threads are
// pinned to the cores. Those of a device with all cores should not be: measurements show
// that pinned helpers sometimes get the same core as a caller that is not pinned, and that
// pinning both is no faster than leaving both to the system.
func open(info device.Info, pinned bool) *Device {
	// The Go scheduler runs at most GOMAXPROCS goroutines at the same time.
	workers := min(len(info.Cores), runtime.GOMAXPROCS(0))
	return &Device{
		info:   info,
		team:   newTeam(info.Name, info.Cores[:workers], pinned),
		pinned: pinned,
		core:   maskOf(info.Cores[0]),
	}
}

// Info describes the device. Free is the memory that was free when it was opened. The
// caller must not modify the slice of cores.
func (d *Device) Info() device.Info { return d.info }

// Cores returns the system's numbers of the cores, ascending. The caller must not modify
// the slice.
func (d *Device) Cores() []int { return d.info.Cores }

// Alloc returns a zeroed buffer, a *Buffer, in memory outside the Go heap that is aligned
// to a page. It fails if the device's buffers would be larger, in total, than the machine's
// memory.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: can't allocate a buffer of %d bytes", d.info.Name, bytes)
	}
	if err := d.reserve(bytes); err != nil {
		return nil, err
	}
	mem, err := mapMemory(int(max(bytes, 1)))
	if err != nil {
		d.release(bytes)
		return nil, d.tooMuch(bytes, d.Allocated(), err)
	}
	return &Buffer{device: d, mem: mem, size: bytes}, nil
}

// reserve counts a buffer before it is allocated, and returns an error if it must not be.
func (d *Device) reserve(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := int64(math.MaxInt)
	if d.info.Memory > 0 {
		limit = min(limit, d.info.Memory)
	}
	switch {
	case d.closed:
		return fmt.Errorf("%s: can't allocate a buffer of %s: the device is closed", d.info.Name, device.FormatSize(bytes))
	case bytes > limit-d.held:
		return d.tooMuch(bytes, d.held, errors.New("not enough memory"))
	}
	d.held += bytes
	d.buffers++
	return nil
}

// tooMuch returns the error for a buffer that can't be allocated. held is the size of those
// allocated already.
func (d *Device) tooMuch(bytes, held int64, cause error) error {
	total := "unknown"
	if d.info.Memory > 0 {
		total = device.FormatSize(d.info.Memory)
	}
	return fmt.Errorf("%s: can't allocate %s: the device has allocated %s, the machine's memory is %s: %w",
		d.info.Name, device.FormatSize(bytes), device.FormatSize(held), total, cause)
}

// release undoes reserve.
func (d *Device) release(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held -= bytes
	d.buffers--
}

// Allocated returns the total size in bytes of the buffers not yet freed, without what
// rounding to pages adds.
func (d *Device) Allocated() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// NewQueue returns a *Queue.
func (d *Device) NewQueue() (device.Queue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%s: can't make a queue: the device is closed", d.info.Name)
	}
	return &Queue{device: d}, nil
}

// Close stops the helpers and waits for them. If there are buffers that were not freed, it
// returns an error with their number; they remain valid, since they may still be in use.
// Further calls have no effect.
func (d *Device) Close() error {
	d.mu.Lock()
	closed, buffers, held := d.closed, d.buffers, d.held
	d.closed = true
	d.mu.Unlock()
	d.team.close()
	if !closed && buffers > 0 {
		return fmt.Errorf("%s: closed before %d buffers of %s in total were freed", d.info.Name, buffers, device.FormatSize(held))
	}
	return nil
}

// Buffer is memory of a device. It implements device.Buffer.
type Buffer struct {
	device *Device
	mem    []byte // at least one byte, since a mapping can't be empty
	size   int64
	freed  atomic.Bool
}

// Device returns the *Device.
func (b *Buffer) Device() device.Device { return b.device }

// Size returns the size in bytes that was passed to Alloc.
func (b *Buffer) Size() int64 { return b.size }

// Bytes returns the buffer's memory, or nil after Free.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	return b.mem[:b.size:b.size]
}

// Free returns the memory to the system. Slices that Bytes returned must not be used
// afterwards. Further calls have no effect.
func (b *Buffer) Free() error {
	if b.freed.Swap(true) {
		return nil
	}
	b.device.release(b.size)
	if err := unmapMemory(b.mem); err != nil {
		return fmt.Errorf("%s: freeing a buffer of %s: %w", b.device.info.Name, device.FormatSize(b.size), err)
	}
	return nil
}
