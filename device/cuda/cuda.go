// Package cuda makes NVIDIA GPUs into devices, through the driver's library alone:
// libcuda.so.1 on Linux, nvcuda.dll on Windows. It is loaded when devices are first
// asked for, so a program runs without it, and says why there is no GPU.
//
// A device is a GPU's primary context. A queue is a stream: an operation returns
// when it is enqueued, and its error, if it has one, comes out at the next event.
// A goroutine is locked to its thread only between a queue's Begin and End, for
// there the driver keeps the current context a thread.
//
// Every error that the driver gives is a [*device.DriverError]. After some of them,
// such as an illegal access by a kernel, a GPU can't be used any more: errors.Is tells
// them by [device.ErrLost]. Then all that was enqueued ends with that error, what comes
// later fails at once, and everything can still be closed.
//
// What any driver's GPUs have in common is in an internal package. This one owns what
// is CUDA's: the library's name and age, its functions, attributes and errors, and what
// to do about those.
//
// Importing the package registers it with package device.
package cuda

import (
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
)

// backend are the GPUs of the driver that the process has loaded.
var backend = driver.Backend{Of: device.CUDA, Load: process.load}

func init() { device.Register(backend) }
