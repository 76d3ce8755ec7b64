package device

import "time"

// Programmable is implemented by a device that runs compiled programs, as a GPU
// does.
type Programmable interface {
	Device

	// Load loads a program's image (PTX on CUDA) onto the device, where it remains until
	// the device is closed. An image that is loaded already is not loaded again. The error
	// includes the messages of the driver's compiler.
	Load(image []byte) (Program, error)
}

// Program is a compiled program that is loaded on a device.
type Program interface {
	// Function returns the program's entry point with that name, or an error that names
	// it.
	Function(name string) (Function, error)
}

// Function is an entry point of a program. It can be launched on the queues of the
// program's device.
type Function interface{ Name() string }

// Grid is the number of threads in a launch: X·Y·Z blocks of Threads threads each.
type Grid struct{ X, Y, Z, Threads uint32 }

// Launcher is a queue of a Programmable device.
type Launcher interface {
	Queue

	// Launch enqueues a run of f over a grid. params is the memory of f's only parameter,
	// a struct; Launch copies it before it returns. A grid without blocks has no effect.
	// Like every operation, Launch must be called after Begin, is skipped if the queue has
	// an error, and reports its error through the queue. It does not allocate.
	Launch(f Function, g Grid, params []byte)

	// Fail makes err the queue's error, unless the queue already has one.
	Fail(err error)

	// Failed reports whether the queue is known to have an error, so that operations are
	// skipped.
	Failed() bool

	// Status returns the device address of StatusWords 32-bit words in which functions
	// report errors. Each word is zero until a function writes it. In the queue's order,
	// Record copies the words to its event and resets them to zero.
	Status() uint64

	// Explain sets the function that makes an event's error from its status words. It is
	// called only if some word is not zero.
	Explain(func(status [StatusWords]uint32) error)
}

// StatusWords is the number of 32-bit words in a Launcher's status.
const StatusWords = 8

// Addressable is implemented by the buffers of a Programmable device.
type Addressable interface {
	Buffer

	// Address returns the address of the buffer's first byte in the device's address
	// space, for use in Launch's parameters. It is 0 after Free.
	Address() uint64
}

// Pinner is implemented by a device that can allocate page-locked ("pinned") host memory,
// to and from which its queues copy asynchronously. With other host memory, a Download may
// block until the copy is done.
type Pinner interface {
	// AllocHost returns a zeroed buffer of page-locked host memory, whose Bytes is not
	// nil before Free. Allocated doesn't count it.
	AllocHost(bytes int64) (Buffer, error)
}

// Copier is implemented by a device that copies while it computes.
type Copier interface {
	// NewCopyQueue returns a queue to be used for Upload and Download only. To save the
	// cost of measuring, its events don't report when the work began.
	NewCopyQueue() (Queue, error)
}

// Timed is implemented by the events of a device that works asynchronously to the host.
type Timed interface {
	// Span returns the time, by the host's clock, during which the device worked on the
	// operations enqueued between the queue's latest Begin and the event's Record. It is
	// as exact as the host can observe, and may be called after Wait has returned.
	Span() (began, ended time.Time)
}
