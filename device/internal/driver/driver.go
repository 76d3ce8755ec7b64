// Package driver implements package device's interfaces for the GPUs of any driver:
// contexts, memory, queues, events, programs, and copies from GPU to GPU. It uses a table
// of the driver's functions, [Calls], which a backend implements. CUDA's and HIP's
// functions correspond to each other, down to the order of their parameters.
//
// The package owns what is the same for every manufacturer: how a stream becomes a queue
// that reports its errors through events, which goroutine waits for the driver, how
// resources are counted and released, and what happens when a GPU is lost. It must not know
// the names and numbers of a driver's functions, errors and attributes, how its library is
// found, or the format of its programs. These belong to the backend, such as device/cuda.
package driver

import (
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Error is the error of a call to the driver. The backend sets all fields but Device.
type Error = device.DriverError

// Driver is a driver's library that is loaded and initialized. Its methods may be called
// from any goroutine. Equal Drivers are the same library.
type Driver interface {
	// Calls returns the driver's functions, for use by one goroutine at a time. The value
	// must be on the heap, because the driver writes to it.
	Calls() Calls

	// Count returns the number of GPUs.
	Count() (int, error)

	// Handle returns the driver's handle for GPU i.
	Handle(i int) (int32, error)

	// Describe returns what is known of a GPU without a context: the manufacturer's
	// description and the memory. If Leat can't use the GPU, it returns an error that says
	// why. The caller sets the Info's name, kind and peers.
	Describe(gpu int32, name string) (device.Info, error)
}

// Calls is the table of a driver's functions. A nil result means that the driver accepted
// the call; work enqueued on a stream runs later. All functions but Retain, Release,
// CanAccessPeer, Current and SetCurrent use the thread's current context.
//
// The functions described as hot are called for every batch and must not allocate. Memory
// that a pointer refers to must remain valid until the driver has used it.
type Calls interface {
	// Retain adds a reference to a GPU's primary context and Release drops one. The driver
	// keeps the context, with its memory and streams, as long as the process has
	// references.
	Retain(gpu int32) (context uintptr, err *Error)
	Release(gpu int32) *Error

	// Current returns the thread's current context, 0 if there is none, and SetCurrent
	// changes it. Both are hot.
	Current() (context uintptr, err *Error)
	SetCurrent(context uintptr) *Error

	// CanAccessPeer returns whether a GPU can read another GPU's memory. EnablePeer lets
	// the current context read another context's memory, and returns false if the machine
	// doesn't support it. It is not an error if the access is enabled already.
	CanAccessPeer(gpu, peer int32) (bool, *Error)
	EnablePeer(context uintptr) (enabled bool, err *Error)

	// MemInfo returns the bytes of the GPU's memory that are free, and those in total.
	// MemAlloc returns memory that is aligned to 256 bytes and has arbitrary contents.
	MemInfo() (free, total int64, err *Error)
	MemAlloc(bytes int64) (address uintptr, err *Error)
	MemFree(address uintptr) *Error

	// HostAlloc returns page-locked host memory that all GPUs of this driver can copy to
	// and from.
	HostAlloc(bytes int64) (mem unsafe.Pointer, err *Error)
	HostFree(mem unsafe.Pointer) *Error

	// CopyToGPU and CopyToHost copy between the host and the GPU, CopyPeer copies from
	// the context from to the context to, and Zero sets memory to zeros. All are hot.
	CopyToGPU(dst uintptr, src unsafe.Pointer, bytes int, stream uintptr) *Error
	CopyToHost(dst unsafe.Pointer, src uintptr, bytes int, stream uintptr) *Error
	CopyPeer(dst, to, src, from uintptr, bytes int64, stream uintptr) *Error
	Zero(address uintptr, bytes int64, stream uintptr) *Error

	// StreamCreate returns a stream that is not ordered with any other. StreamDestroy
	// doesn't cancel the work enqueued on it. StreamWait, which is hot, makes the work
	// enqueued from now on wait for an event's latest recording.
	StreamCreate() (stream uintptr, err *Error)
	StreamDestroy(stream uintptr) *Error
	StreamSynchronize(stream uintptr) *Error
	StreamWait(stream, event uintptr) *Error

	// EventCreate returns an event without timing. EventSynchronize waits for its latest
	// recording, and the thread sleeps meanwhile. EventRecord and EventSynchronize are
	// hot.
	EventCreate() (event uintptr, err *Error)
	EventRecord(event, stream uintptr) *Error
	EventSynchronize(event uintptr) *Error
	EventDestroy(event uintptr) *Error

	// ModuleLoad compiles or loads a program's image. Its error includes the compiler's
	// messages. ModuleFunction returns a kernel that is ready to be launched, and the
	// maximum number of threads in its blocks.
	ModuleLoad(image []byte) (module uintptr, err *Error)
	ModuleUnload(module uintptr) *Error
	ModuleFunction(module uintptr, name string) (function uintptr, threads int, err *Error)

	// Launch enqueues a kernel with its only parameter, a struct of at most MostParams
	// bytes, which it copies. It is hot.
	Launch(function uintptr, grid device.Grid, stream uintptr, params []byte) *Error
}

// MostParams is the maximum size in bytes of a kernel's parameters. Every GPU supports it.
const MostParams = 4 << 10
