package cuda

import (
	"errors"
	"fmt"
	"unsafe"
)

// What an *Error may be, for errors.Is.
var (
	// ErrOutOfMemory is that of a GPU, or of the host's memory that the driver
	// would have to keep in place.
	ErrOutOfMemory = errors.New("out of memory")

	// ErrLost is an error after which nothing works on the GPU any more until
	// the device is closed, or the process has ended.
	ErrLost = errors.New("the GPU is lost")
)

// Error is a call of the driver that failed, or failed work that the call was the
// first to tell of.
type Error struct {
	Device  string // "cuda:1"; empty where the call is of none
	Call    string // "cuMemAlloc"
	Code    int    // the driver's number of the error
	Name    string // the driver's name of it: "CUDA_ERROR_OUT_OF_MEMORY"
	Message string // the driver's words: "out of memory"
	Detail  string // what else there is to say: sizes, the compiler's log; may be empty
}

// Error is like "cuda:1: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory): …".
func (e *Error) Error() string {
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
func (e *Error) Is(target error) bool {
	switch target {
	case ErrOutOfMemory:
		return e.Code == int(outOfMemory)
	case ErrLost:
		// A driver that doesn't start has lost nothing, and a GPU may be only busy.
		busy := e.Code == int(deviceUnavailable) && e.Call == cuDevicePrimaryCtxRetain.String()
		return result(e.Code).sticky() && !busy && e.Call != cuInit.String()
	}
	return false
}

// result is what a call of the driver returns.
type result int32

// Those that mean something here, from CUresult of the driver's interface.
const (
	success            result = 0
	outOfMemory        result = 2
	stubLibrary        result = 34
	deviceUnavailable  result = 46
	noDevice           result = 100
	peerUnsupported    result = 217
	noCompiler         result = 221
	unsupportedPTX     result = 222
	compilerOff        result = 223
	peerEnabled        result = 704
	tooManyPeers       result = 711
	notSupported       result = 801
	systemNotReady     result = 802
	driverMismatch     result = 803
	compatNotSupported result = 804
	unknownError       result = 999
)

// sticky says that the context can't be used after this error. Which those are is
// said at each in the documentation of CUresult.
func (r result) sticky() bool {
	switch r {
	case 4, // the driver is being shut down
		deviceUnavailable,
		214, // an uncorrectable memory error
		220, // an uncorrectable NVLink error
		226, // a contained error
		700, // an illegal address
		702, // a kernel ran too long
		709, // the context is destroyed
		710, // an assertion in a kernel
		714, // a stack error
		715, // an illegal instruction
		716, // a misaligned address
		717, // an address of the wrong space
		718, // an invalid program counter
		719, // a launch failed
		721, // tensor memory that a kernel left
		810, // the server that shares the GPU has ended this client
		911, // an external device's error
		999: // an unknown error
		return true
	}
	return false
}

// fault is the error of a call. Where there is no detail, it says what may help.
func (d *driver) fault(device string, s symbol, code result, detail string) *Error {
	c := caller{driver: d}
	if detail == "" {
		detail = advice(s, code)
	}
	e := &Error{Device: device, Call: s.String(), Code: int(code), Detail: detail}
	e.Name, e.Message = c.text(cuGetErrorName, code), c.text(cuGetErrorString, code)
	if e.Name == "" {
		e.Name = fmt.Sprintf("error %d", code)
	}
	return e
}

// text returns what the driver calls a result, empty where it doesn't know it, or is
// still being loaded.
func (c *caller) text(s symbol, code result) string {
	if c.driver.entry[s] == 0 {
		return ""
	}
	text := new(*byte)
	if c.fill(s, uintptr(code), uintptr(unsafe.Pointer(text))) != success || *text == nil {
		return ""
	}
	const longest = 1 << 10
	return until0(unsafe.Slice(*text, longest))
}

// until0 is the text in b before its first 0.
func until0(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
