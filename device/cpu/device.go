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

	visit  sync.Mutex // held from Begin to End
	pinned bool       // threads are pinned to cores, visitors to the first
	core   coreMask   // which is this

	mu      sync.Mutex // guards what follows
	held    int64      // bytes of buffers not yet freed
	buffers int        // how many they are
	closed  bool
}

// open makes a device of the cores of info. pinned says whether its threads are pinned
// to them. Those of a device with all cores are not: measured, helpers that are pinned
// beside a visitor that isn't now and then share a core with it, and pinning both gains
// nothing over the system's own placement.
func open(info device.Info, pinned bool) *Device {
	// More threads than GOMAXPROCS could only take turns.
	workers := min(len(info.Cores), runtime.GOMAXPROCS(0))
	return &Device{
		info:   info,
		team:   newTeam(info.Name, info.Cores[:workers], pinned),
		pinned: pinned,
		core:   maskOf(info.Cores[0]),
	}
}

// Info describes the device, its memory as it was when it was opened. The slice
// of cores is not to be changed.
func (d *Device) Info() device.Info { return d.info }

// Cores returns the system's numbers of the cores, ascending; not to be changed.
func (d *Device) Cores() []int { return d.info.Cores }

// Alloc returns a zeroed buffer, aligned to a page, in memory outside the Go
// heap. The buffers of a device may not hold more than the machine's memory.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: a buffer of %d bytes", d.info.Name, bytes)
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

// reserve counts a buffer that is about to be.
func (d *Device) reserve(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := int64(math.MaxInt)
	if d.info.Memory > 0 {
		limit = min(limit, d.info.Memory)
	}
	switch {
	case d.closed:
		return fmt.Errorf("%s: a buffer of %s: the device is closed", d.info.Name, device.FormatSize(bytes))
	case bytes > limit-d.held:
		return d.tooMuch(bytes, d.held, errors.New("not enough memory"))
	}
	d.held += bytes
	d.buffers++
	return nil
}

// tooMuch says why a buffer couldn't be had.
func (d *Device) tooMuch(bytes, held int64, cause error) error {
	total := "unknown"
	if d.info.Memory > 0 {
		total = device.FormatSize(d.info.Memory)
	}
	return fmt.Errorf("%s: can't allocate %s: the device holds %s, the machine's memory is %s: %w",
		d.info.Name, device.FormatSize(bytes), device.FormatSize(held), total, cause)
}

func (d *Device) release(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held -= bytes
	d.buffers--
}

// Allocated returns the bytes asked for in buffers that are not yet freed.
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
		return nil, fmt.Errorf("%s: a queue on a closed device", d.info.Name)
	}
	return &Queue{device: d}, nil
}

// Close ends the workers and waits until they have. Buffers that nobody freed
// stay valid, since somebody may still use them, and are an error that says how
// many they are. A second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	closed, buffers, held := d.closed, d.buffers, d.held
	d.closed = true
	d.mu.Unlock()
	d.team.close()
	if !closed && buffers > 0 {
		return fmt.Errorf("%s: closed with %d buffers of %s in all not freed", d.info.Name, buffers, device.FormatSize(held))
	}
	return nil
}

// Buffer is memory of a device. It implements device.Buffer.
type Buffer struct {
	device *Device
	mem    []byte // at least a byte, so that there is a mapping
	size   int64
	freed  atomic.Bool
}

// Device returns the *Device.
func (b *Buffer) Device() device.Device { return b.device }

// Size returns the bytes asked for.
func (b *Buffer) Size() int64 { return b.size }

// Bytes returns the memory, nil after Free.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	return b.mem[:b.size:b.size]
}

// Free gives the memory back to the system. Slices of Bytes must not be used
// any more. A second Free does nothing.
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
