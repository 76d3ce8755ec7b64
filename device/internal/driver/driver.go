// Package driver makes the GPUs of a driver into devices: contexts, memory, queues,
// events, programs, and copies from GPU to GPU. It is written against a table of the
// driver's functions, [Calls], which a backend fills in: CUDA's and HIP's are alike to
// the order of their arguments.
//
// The package owns what is the same whoever made the GPU: how a stream becomes a queue
// whose errors come out at events, who waits for the driver, what is counted and given
// back, and what follows when a GPU is lost. It doesn't know the names and numbers of a
// driver's functions, errors and attributes, how its library is found, or what its
// programs are written in. Those are the backend's, in device/cuda.
package driver

import (
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Error is the error of a call. The backend fills in all but the Device.
type Error = device.DriverError

// Driver is a driver's library, loaded and started. Its methods may be called from any
// goroutine. Two Drivers are one if they are equal.
type Driver interface {
	// Calls returns the driver's functions for use by one goroutine at a time. It
	// is on the heap, for the driver writes to it.
	Calls() Calls

	// Count returns how many GPUs there are.
	Count() (int, error)

	// Handle returns the driver's own handle of GPU i.
	Handle(i int) (int32, error)

	// Describe returns what can be told of a GPU without a context: its maker's
	// description and its memory. It is an error that the GPU can't be used. Who
	// calls fills in the Info's name, kind and peers.
	Describe(gpu int32, name string) (device.Info, error)
}

// Calls is the table of a driver's functions. A call returns nil when the driver took
// it: what is enqueued on a stream runs later. All but Retain, Release, CanAccessPeer,
// Current and SetCurrent are about the context that is the thread's current one.
//
// Where the table says that a call is hot it is made for every batch, and allocates
// nothing. What a pointer points to must stay until the driver has used it.
type Calls interface {
	// Retain takes part in a GPU's context and Release ends that: the driver keeps
	// it for the process as long as anyone has part in it. Memory and streams are a
	// context's.
	Retain(gpu int32) (context uintptr, err *Error)
	Release(gpu int32) *Error

	// Current is the thread's context, 0 for none. Both are hot.
	Current() (context uintptr, err *Error)
	SetCurrent(context uintptr) *Error

	// CanAccessPeer says whether a GPU can read another's memory, and EnablePeer
	// has the current context read another's. It isn't an error that the machine
	// has no room for it, or that it was enabled before.
	CanAccessPeer(gpu, peer int32) (bool, *Error)
	EnablePeer(context uintptr) (enabled bool, err *Error)

	// MemInfo returns the GPU's bytes that are free, and all of them. MemAlloc's
	// memory is aligned to 256 bytes and holds anything.
	MemInfo() (free, total int64, err *Error)
	MemAlloc(bytes int64) (address uintptr, err *Error)
	MemFree(address uintptr) *Error

	// HostAlloc returns memory of the host that stays in place, for copies of every
	// GPU of this driver.
	HostAlloc(bytes int64) (mem unsafe.Pointer, err *Error)
	HostFree(mem unsafe.Pointer) *Error

	// Copies between the host and the GPU, and from another GPU's context to the
	// current one; and zeros. All are hot.
	CopyToGPU(dst uintptr, src unsafe.Pointer, bytes int, stream uintptr) *Error
	CopyToHost(dst unsafe.Pointer, src uintptr, bytes int, stream uintptr) *Error
	CopyPeer(dst, to, src, from uintptr, bytes int64, stream uintptr) *Error
	Zero(address uintptr, bytes int64, stream uintptr) *Error

	// StreamCreate returns a stream that isn't ordered with any other. Its end
	// leaves what it has enqueued to run. StreamWait, which is hot, makes what is
	// enqueued from now on run after an event's latest recording.
	StreamCreate() (stream uintptr, err *Error)
	StreamDestroy(stream uintptr) *Error
	StreamSynchronize(stream uintptr) *Error
	StreamWait(stream, event uintptr) *Error

	// EventCreate returns an event that says nothing about time, and whose waiter
	// sleeps. EventRecord and EventSynchronize are hot.
	EventCreate() (event uintptr, err *Error)
	EventRecord(event, stream uintptr) *Error
	EventSynchronize(event uintptr) *Error
	EventDestroy(event uintptr) *Error

	// ModuleLoad compiles or loads a program's image; its error has what the
	// compiler said. ModuleFunction returns a kernel that is ready to be launched,
	// and the most threads that a block of it may have.
	ModuleLoad(image []byte) (module uintptr, err *Error)
	ModuleUnload(module uintptr) *Error
	ModuleFunction(module uintptr, name string) (function uintptr, threads int, err *Error)

	// Launch enqueues a kernel with its one parameter, a struct of at most
	// MostParams bytes, which it copies. It is hot.
	Launch(function uintptr, grid device.Grid, stream uintptr, params []byte) *Error
}

// MostParams is how many bytes of parameters a kernel may have on every GPU.
const MostParams = 4 << 10
