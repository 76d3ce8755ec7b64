// Package device is what a stage can run on: a group of CPU cores, or a GPU.
//
// A [Device] owns memory and ordered queues. Work is enqueued on a [Queue] and
// runs in order; an [Event] recorded on a queue says when the work before it is
// done, and carries the error if it failed. Moving activations between two
// devices is a [Transfer]. The arithmetic itself is not here: package kernels
// puts its op set on top of a queue.
//
// Each backend is a sub-package of the same shape, which registers itself when
// it is imported (device/cpu). Nothing of a vendor leaks out of its backend: what
// others conclude about a device they conclude from its [Info], and what failed in a
// driver is a [DriverError].
package device

import "context"

// Kind is what drives a device. It is a run-time value: one pipeline may mix
// kinds.
type Kind uint8

// The kinds of device, each a value of its own.
const (
	CPU Kind = iota + 1
	CUDA
	ROCm
	Metal
)

// Kinds lists every kind, in the order in which "auto" prefers them.
var Kinds = []Kind{CUDA, ROCm, Metal, CPU}

var kindNames = [...]string{CPU: "cpu", CUDA: "cuda", ROCm: "rocm", Metal: "metal"}

// String returns the kind's name in device lists: cpu, cuda, rocm or metal.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// Info describes a device without opening it.
type Info struct {
	Name        string // as in device lists and output: "cuda:0", "cpu:0-1"
	Kind        Kind
	Description string   // the maker's name of it
	Memory      int64    // bytes in all
	Free        int64    // bytes free when it was looked at
	Cores       []int    // of a CPU device: the system's numbers of its cores
	SIMD        string   // of a CPU device: the level its kernels use, such as "avx512-vnni"
	Peers       []string // of a GPU: the names of those it copies to and from directly
	Rates       Rates    // how fast it is, where package internal/calibrate has measured that

	// HostMemory says that the device has its buffers in the host's memory:
	// Buffer.Bytes is the memory itself until Free, and all such devices share
	// one physical memory, in which each reads what another has written where
	// that lies. A device without it has a memory of its own, which the host
	// reaches by Upload and Download alone.
	HostMemory bool

	// Imagined says that the device isn't there: it is one of WhatIf's, for
	// plans. It can't be opened, and nothing about it was measured.
	Imagined bool
}

// hostMemory is what plans call the memory of the devices with HostMemory.
const hostMemory = "the host's memory"

// MemoryName names the physical memory that the device's buffers take, for people:
// devices for which it is the same share the bytes that are free.
func (i Info) MemoryName() string {
	if i.HostMemory {
		return hostMemory
	}
	return i.Name
}

// SharesMemory says that the device reads what the other one has written where it lies,
// and the other way round: no activations are copied between them.
func (i Info) SharesMemory(other Info) bool { return i.MemoryName() == other.MemoryName() }

// Rates is how fast a device is, all of it together. The zero value says that
// nobody has measured it.
type Rates struct {
	Memory  float64 // bytes of weights that a product of one row reads a second
	Float   float64 // multiply-adds a second of a product of many rows with F32, F16 or BF16 weights
	Integer float64 // the same with quantized weights, measured with Q8_0
}

// Device is an open device. Its methods may be called from any goroutine.
type Device interface {
	Info() Info

	// Alloc returns a buffer of at least bytes bytes, zeroed, aligned to 64.
	// It fails with an error that says how much was asked and how much the
	// device holds.
	Alloc(bytes int64) (Buffer, error)

	// Allocated returns the bytes that the buffers not yet freed hold.
	Allocated() int64

	// NewQueue returns a queue of its own order. Queues of one device share
	// its compute.
	NewQueue() (Queue, error)

	// Close frees what the device holds. Its queues must be closed before.
	Close() error
}

// Buffer is memory on a device.
type Buffer interface {
	Device() Device
	Size() int64

	// Bytes is the memory itself on a device with HostMemory, else nil. It is
	// valid until Free.
	Bytes() []byte

	// Free gives the memory back. The caller sees to it that no queue still
	// works on it. A second Free does nothing.
	Free() error
}

// Queue runs what is enqueued on it in order. It belongs to one goroutine at a
// time.
//
// An operation that fails doesn't return its error: the queue keeps the first
// one, skips what follows, and hands it over at the next Record, to whoever
// waits for that event. After that it is as new.
type Queue interface {
	Device() Device

	// Begin takes the device for the calling goroutine, until End. Operations
	// are enqueued only in between. On a CPU it waits for the device's cores
	// and moves the caller onto them; a GPU makes its context current.
	Begin()
	End()

	// Upload copies src to dst at offset. The queue may read src until an
	// event recorded afterwards is done.
	Upload(dst Buffer, offset int64, src []byte)

	// Download copies len(dst) bytes of src from offset to dst. They are
	// there when an event recorded afterwards is done.
	Download(dst []byte, src Buffer, offset int64)

	// After makes what is enqueued from now on run after e, which may belong
	// to another queue, of another device and kind.
	After(e Event)

	// NewEvent returns an event that is done already.
	NewEvent() (Event, error)

	// Record re-arms e, made by this queue's NewEvent: it is done, with the
	// queue's error, when all that was enqueued so far is.
	Record(e Event)

	// Err returns the queue's error so far, where it is known already. Nil says
	// nothing about work that still runs.
	Err() error

	// Close waits for what was enqueued and frees the queue.
	Close() error
}

// Event marks a point in a queue.
type Event interface {
	// Wait blocks until the work before the event is done and returns the
	// first error of that work, or ctx's error if that comes first.
	Wait(ctx context.Context) error
}
