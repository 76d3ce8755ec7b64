// Package cuda is the backend for NVIDIA GPUs. It uses only the driver's library, which is
// libcuda.so.1 on Linux and nvcuda.dll on Windows, and loads it when devices are first looked
// for. A program therefore also runs on a machine without the library, and reports why there
// is no GPU.
//
// A device is a GPU's primary context, and a queue is a stream: an operation returns when it
// is enqueued, and the next event reports its error. Between a queue's Begin and End, the
// goroutine is locked to its thread, because the driver's current context belongs to a
// thread.
//
// Every error of the driver is a [*device.DriverError]. After some errors, such as a kernel's
// access to an illegal address, a GPU can't be used any more; such an error is a
// [device.ErrLost]. All operations enqueued before then end with that error, later ones fail
// at once, and everything can still be closed.
//
// What the GPUs of all drivers have in common is in the package device/internal/driver. This
// package owns what is specific to CUDA: the library's name and version, its functions,
// attributes and errors, and advice on those errors.
//
// Importing the package registers the backend with package device.
package cuda

import (
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
)

// backend is the backend for the GPUs of the process's driver.
var backend = driver.Backend{Of: device.CUDA, Load: process.load}

func init() { device.Register(backend) }
