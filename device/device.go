// Package device defines what a stage runs on: a group of CPU cores, or a GPU.
//
// A [Device] owns memory and ordered queues. Work is enqueued on a [Queue] and runs in
// order. An [Event] that is recorded on a queue is done when the work enqueued before it
// is done, and carries the error of that work. A [Transfer] moves activations from one
// device to another. Arithmetic is not part of this package: package kernels adds its op
// set to a queue.
//
// Each backend is a sub-package, such as device/cpu, that registers itself when it is
// imported. Other packages depend on no vendor's interface: they choose by a device's
// [Info], and a driver's failure reaches them as a [DriverError].
package device

import "context"

// Kind is the programming interface through which a device is used. One pipeline may have
// devices of several kinds.
type Kind uint8

// The kinds of device. The zero Kind is none of them.
const (
	CPU Kind = iota + 1
	CUDA
	ROCm
	Metal
)

// Kinds lists every kind, in the order in which a device list's "auto" has them. It must
// not be modified.
var Kinds = []Kind{CUDA, ROCm, Metal, CPU}

var kindNames = [...]string{CPU: "cpu", CUDA: "cuda", ROCm: "rocm", Metal: "metal"}

// String returns the kind's name in device lists: "cpu", "cuda", "rocm" or "metal".
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// Info describes a device. It is available without opening the device. Its slices must
// not be modified.
type Info struct {
	Name        string // as in device lists and output: "cuda:0", "cpu:0-1"
	Kind        Kind
	Description string   // the manufacturer's name for the device, and further details
	Memory      int64    // bytes of memory in total; 0 if not known
	Free        int64    // bytes free at the time of the query; 0 if not known
	Cores       []int    // CPU devices: the operating system's numbers of the cores
	SIMD        string   // CPU devices: the SIMD level of the kernels, such as "avx512-vnni"
	HugePages   bool     // CPU devices: whether the system puts large buffers on huge pages
	Peers       []string // GPUs: the names of the GPUs to and from which it copies directly
	Rates       Rates    // the measured speed; the zero value if it was not measured

	// HostMemory reports whether the device's buffers are in the host's memory. If so,
	// Buffer.Bytes is the buffer's memory until Free, all such devices use one physical
	// memory, and each can read another's buffers in place. If not, the device has a
	// memory of its own, and the host reads and writes it with Upload and Download only.
	HostMemory bool

	// Imagined reports whether the device is one of WhatIf's: one that need not exist,
	// for use in plans. Such a device can't be opened, and nothing about it is measured.
	Imagined bool
}

// hostMemory is the name of the memory of all devices with HostMemory.
const hostMemory = "the host's memory"

// MemoryName returns a name, for people, of the physical memory that holds the device's
// buffers. Devices with the same MemoryName allocate from the same free memory.
func (i Info) MemoryName() string {
	if i.HostMemory {
		return hostMemory
	}
	return i.Name
}

// SharesMemory reports whether the two devices use the same physical memory, so that each
// reads the other's buffers in place and no activations are copied between them.
func (i Info) SharesMemory(other Info) bool { return i.MemoryName() == other.MemoryName() }

// Rates is the measured speed of a whole device, with all of its cores. The zero value
// means that it was not measured.
type Rates struct {
	Memory  float64 // bytes of weights per second, in a matrix product with one row
	Float   float64 // multiply-adds per second, in a product of many rows with F32, F16 or BF16 weights
	Integer float64 // the same with quantized weights, measured with Q8_0
}

// Device is an open device. Its methods may be called from any goroutine.
type Device interface {
	// Info describes the device.
	Info() Info

	// Alloc returns a zeroed buffer of at least the given number of bytes, aligned to 64
	// bytes. If it fails, the error says how much was asked for and how much the device
	// has allocated already.
	Alloc(bytes int64) (Buffer, error)

	// Allocated returns the total size in bytes of the buffers not yet freed.
	Allocated() int64

	// NewQueue returns a new queue. Work on different queues of a device runs in no
	// particular order, and uses the same processors.
	NewQueue() (Queue, error)

	// Close releases the device's resources. Its queues must have been closed.
	Close() error
}

// Buffer is a block of memory on a device. Its methods may be called from any goroutine.
type Buffer interface {
	// Device returns the device that allocated the buffer.
	Device() Device

	// Size returns the buffer's size in bytes.
	Size() int64

	// Bytes returns the buffer's memory, valid until Free, if the device has HostMemory,
	// and nil otherwise.
	Bytes() []byte

	// Free releases the memory. The caller must ensure that no queue still reads or
	// writes it. Further calls have no effect.
	Free() error
}

// Queue runs the operations enqueued on it in order. It may be used by only one goroutine
// at a time.
//
// An operation does not return its error. The queue keeps the first error and skips the
// operations that follow. The next Record moves that error to its event, whose Wait
// returns it, and clears the queue's.
type Queue interface {
	// Device returns the device whose queue it is.
	Device() Device

	// Begin reserves the device for the calling goroutine until End. Operations may be
	// enqueued only between the two. On a CPU, Begin waits until the device's cores are
	// not reserved by another queue, and moves the calling thread to them; on a GPU, it
	// makes the device's context current.
	Begin()

	// End ends what Begin began.
	End()

	// Upload copies src to dst, from byte offset on. The caller must not modify src until
	// an event recorded afterwards is done.
	Upload(dst Buffer, offset int64, src []byte)

	// Download copies len(dst) bytes of src, from byte offset on, to dst. The caller must
	// not use dst until an event recorded afterwards is done.
	Download(dst []byte, src Buffer, offset int64)

	// After makes the operations enqueued from now on wait for e, which may be an event
	// of any queue of any device.
	After(e Event)

	// NewEvent returns an event for use with Record. Until it is recorded it is done.
	NewEvent() (Event, error)

	// Record resets e, which this queue's NewEvent must have made. It is done, with the
	// queue's error, when all operations enqueued before are done.
	Record(e Event)

	// Err returns the queue's error, if it is known already. A nil result says nothing
	// about operations that still run.
	Err() error

	// Close waits for the operations enqueued and releases the queue.
	Close() error
}

// Event marks a point in a queue. Its methods may be called from any goroutine.
type Event interface {
	// Wait blocks until the operations before the event are done, and returns their first
	// error. If ctx ends before, it returns ctx's error.
	Wait(ctx context.Context) error
}
