package device

import "errors"

// Errors that a *DriverError may match with errors.Is.
var (
	// ErrOutOfMemory means that there was not enough memory on the GPU, or not enough
	// page-locked memory on the host.
	ErrOutOfMemory = errors.New("out of memory")

	// ErrLost means that the GPU can't be used until its device is closed and opened
	// again or, for some errors, until the process has ended.
	ErrLost = errors.New("the GPU is lost")
)

// DriverError reports that a call to a GPU's driver failed, or that the call returned the
// error of work enqueued earlier.
type DriverError struct {
	Device  string // the device's name, such as "cuda:1"; empty if the call concerns no device
	Call    string // the function, as in the driver's documentation: "cuMemAlloc"
	Code    int    // the driver's error number
	Name    string // the driver's name for the error: "CUDA_ERROR_OUT_OF_MEMORY"
	Message string // the driver's description: "out of memory"
	Detail  string // further details, such as sizes or the compiler's log; may be empty

	OutOfMemory bool // whether the error matches ErrOutOfMemory
	Lost        bool // whether the error matches ErrLost
}

// Error returns text such as
// "cuda:1: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory): …".
func (e *DriverError) Error() string {
	s := e.Call + ": " + e.Name
	if e.Device != "" {
		s = e.Device + ": " + s
	}
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is reports whether target is ErrOutOfMemory or ErrLost and the error is that one.
func (e *DriverError) Is(target error) bool {
	return e.OutOfMemory && target == ErrOutOfMemory || e.Lost && target == ErrLost
}
