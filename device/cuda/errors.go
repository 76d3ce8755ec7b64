package cuda

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device/internal/driver"
)

// result is the result of a call to the driver: a CUresult of the CUDA driver API.
type result int32

// The results that this package treats specially.
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

// sticky reports whether the context can't be used after this error. The CUDA driver API's
// documentation of CUresult says so for each of them.
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

// fault returns the error of a call, with advice in its Detail.
func (c *calls) fault(s symbol, code result) *driver.Error {
	// The GPU is not lost if it is only in use, or if the driver can't be initialized.
	busy := s == cuDevicePrimaryCtxRetain && code == deviceUnavailable
	e := &driver.Error{
		Call:        s.String(),
		Code:        int(code),
		Name:        c.text(cuGetErrorName, code),
		Message:     c.text(cuGetErrorString, code),
		Detail:      advice(s, code),
		OutOfMemory: code == outOfMemory,
		Lost:        code.sticky() && !busy && s != cuInit,
	}
	if e.Name == "" {
		e.Name = fmt.Sprintf("error %d", code)
	}
	return e
}

// text returns the driver's name or description of a result, whichever the function s returns.
// It returns "" if the driver doesn't know the result or that function is not loaded yet.
func (c *calls) text(s symbol, code result) string {
	if c.cuda.entry[s] == 0 {
		return ""
	}
	text := new(*byte)
	if c.callFilling(s, uintptr(code), uintptr(unsafe.Pointer(text))) != success || *text == nil {
		return ""
	}
	const longest = 1 << 10
	return until0(unsafe.Slice(*text, longest))
}

// callFilling is like call, for a function that writes to a Go variable; see fill.
//
//go:uintptrescapes
func (c *calls) callFilling(s symbol, args ...uintptr) result { return c.call(s, args...) }

// until0 returns the text in b up to the first zero byte.
func until0(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
