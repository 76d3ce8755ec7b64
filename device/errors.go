package device

import "errors"

// What a *DriverError may be, for errors.Is.
var (
	// ErrOutOfMemory is that of a GPU, or of the host's memory that a driver
	// would have to keep in place.
	ErrOutOfMemory = errors.New("out of memory")

	// ErrLost is an error after which nothing works on the GPU any more until
	// the device is closed, or the process has ended.
	ErrLost = errors.New("the GPU is lost")
)

// DriverError is a call of a GPU's driver that failed, or failed work that the call was
// the first to tell of.
type DriverError struct {
	Device  string // "cuda:1"; empty where the call is of none
	Call    string // as the driver's documentation has it: "cuMemAlloc"
	Code    int    // the driver's number of the error
	Name    string // the driver's name of it: "CUDA_ERROR_OUT_OF_MEMORY"
	Message string // the driver's words: "out of memory"
	Detail  string // what else there is to say: sizes, the compiler's log; may be empty

	OutOfMemory bool // it is ErrOutOfMemory
	Lost        bool // it is ErrLost
}

// Error is like "cuda:1: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory): …".
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

// Is says whether the error is ErrOutOfMemory or ErrLost.
func (e *DriverError) Is(target error) bool {
	return e.OutOfMemory && target == ErrOutOfMemory || e.Lost && target == ErrLost
}
