package device

import "time"

// Programmable is implemented by a device that runs compiled programs, as a GPU
// does.
type Programmable interface {
	Device

	// Load brings a program's image (PTX on CUDA) onto the device. The same
	// image is loaded once and shared; it stays until the device is closed. The
	// error has what the driver's compiler said.
	Load(image []byte) (Program, error)
}

// Program is code on one device.
type Program interface {
	// Function returns the entry point of that name, or an error that names it.
	Function(name string) (Function, error)
}

// Function is an entry point of a program, for queues of the program's device.
type Function interface{ Name() string }

// Grid is over how many threads a function is launched: X·Y·Z blocks of Threads
// threads each.
type Grid struct{ X, Y, Z, Threads uint32 }

// Launcher is a queue of a Programmable device.
type Launcher interface {
	Queue

	// Launch enqueues f over a grid. params is f's one parameter, a struct as f
	// has it; it is copied before Launch returns. A grid without blocks does
	// nothing. Like any operation it needs Begin, is skipped on a queue that
	// failed, and leaves its error to the queue. It allocates nothing.
	Launch(f Function, g Grid, params []byte)

	// Fail makes err the queue's error, unless it has one.
	Fail(err error)

	// Failed says that the queue has an error that is known already, so that
	// operations are skipped.
	Failed() bool

	// Status is the device address of StatusWords 32-bit words that functions
	// may write, zeros otherwise. Record hands what they hold to the event and
	// makes them zeros again, in the queue's order.
	Status() uint64

	// Explain sets what turns a status that isn't all zeros into the error of
	// the event that it was handed to.
	Explain(func(status [StatusWords]uint32) error)
}

// StatusWords is how many 32-bit words a Launcher's status has.
const StatusWords = 8

// Addressable is implemented by the buffers of a Programmable device.
type Addressable interface {
	Buffer

	// Address is the device's own address of the buffer's first byte, 0 once it
	// is freed. Launch takes it in its parameters.
	Address() uint64
}

// Pinner is implemented by a device that has host memory which its queues copy
// to and from while the host goes on. Without it a Download may block.
type Pinner interface {
	// AllocHost returns a zeroed buffer of host memory: Bytes is never nil
	// before Free. It doesn't count as Allocated.
	AllocHost(bytes int64) (Buffer, error)
}

// Copier is implemented by a device that copies beside what it computes.
type Copier interface {
	// NewCopyQueue returns a queue for Upload and Download alone. Its events
	// say nothing about when its work began, which costs a little to know.
	NewCopyQueue() (Queue, error)
}

// Timed is implemented by events of a device that works by itself, beside the
// host.
type Timed interface {
	// Span returns from when until when the device worked on what was enqueued
	// between the queue's latest Begin and the event's Record, by the host's clock,
	// as nearly as the host can tell. It may be called once Wait has returned.
	Span() (began, ended time.Time)
}
