package cuda

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// symbol is a function of the driver's library.
type symbol uint8

const (
	cuDriverGetVersion symbol = iota
	cuInit
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDeviceGetPCIBusId
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuCtxGetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyPeerAsync
	cuMemsetD8Async
	cuMemsetD32Async
	cuDeviceCanAccessPeer
	cuCtxEnablePeerAccess
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuEventCreate
	cuEventRecord
	cuEventSynchronize
	cuEventDestroy
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuLaunchKernel
	cuGetErrorName
	cuGetErrorString
	symbols
)

// symbolNames are as the library exports them. A version in the name is that of a
// function whose parameters were changed long ago.
var symbolNames = [symbols]string{
	cuDriverGetVersion:        "cuDriverGetVersion",
	cuInit:                    "cuInit",
	cuDeviceGetCount:          "cuDeviceGetCount",
	cuDeviceGet:               "cuDeviceGet",
	cuDeviceGetName:           "cuDeviceGetName",
	cuDeviceGetAttribute:      "cuDeviceGetAttribute",
	cuDeviceTotalMem:          "cuDeviceTotalMem_v2",
	cuDeviceGetPCIBusId:       "cuDeviceGetPCIBusId",
	cuDevicePrimaryCtxRetain:  "cuDevicePrimaryCtxRetain",
	cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxSetCurrent:           "cuCtxSetCurrent",
	cuCtxGetCurrent:           "cuCtxGetCurrent",
	cuMemGetInfo:              "cuMemGetInfo_v2",
	cuMemAlloc:                "cuMemAlloc_v2",
	cuMemFree:                 "cuMemFree_v2",
	cuMemHostAlloc:            "cuMemHostAlloc",
	cuMemFreeHost:             "cuMemFreeHost",
	cuMemcpyHtoDAsync:         "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync:         "cuMemcpyDtoHAsync_v2",
	cuMemcpyPeerAsync:         "cuMemcpyPeerAsync",
	cuMemsetD8Async:           "cuMemsetD8Async",
	cuMemsetD32Async:          "cuMemsetD32Async",
	cuDeviceCanAccessPeer:     "cuDeviceCanAccessPeer",
	cuCtxEnablePeerAccess:     "cuCtxEnablePeerAccess",
	cuStreamCreate:            "cuStreamCreate",
	cuStreamDestroy:           "cuStreamDestroy_v2",
	cuStreamSynchronize:       "cuStreamSynchronize",
	cuStreamWaitEvent:         "cuStreamWaitEvent",
	cuEventCreate:             "cuEventCreate",
	cuEventRecord:             "cuEventRecord",
	cuEventSynchronize:        "cuEventSynchronize",
	cuEventDestroy:            "cuEventDestroy_v2",
	cuModuleLoadDataEx:        "cuModuleLoadDataEx",
	cuModuleUnload:            "cuModuleUnload",
	cuModuleGetFunction:       "cuModuleGetFunction",
	cuFuncGetAttribute:        "cuFuncGetAttribute",
	cuLaunchKernel:            "cuLaunchKernel",
	cuGetErrorName:            "cuGetErrorName",
	cuGetErrorString:          "cuGetErrorString",
}

// String returns the function's name as the documentation has it.
func (s symbol) String() string { return strings.TrimSuffix(symbolNames[s], "_v2") }

// Arguments of the driver's functions, by their names in its interface.
const (
	attributeCapabilityMajor = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	attributeCapabilityMinor = 76

	functionMaxThreads = 0 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

	streamNonBlocking = 1     // CU_STREAM_NON_BLOCKING: not ordered with the default stream
	eventForWaiting   = 1 | 2 // CU_EVENT_BLOCKING_SYNC: who waits sleeps; CU_EVENT_DISABLE_TIMING

	hostPortable = 1 // CU_MEMHOSTALLOC_PORTABLE: for the queues of all GPUs

	jitErrorLog      = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBytes = 6

	launchParams     = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBytes = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE, a pointer to it
	launchEnd        = 0
)

// driver is the driver's library.
type driver struct {
	path  string
	entry [symbols]uintptr
}

// caller calls the driver's functions. It keeps the arguments, so that a call
// allocates nothing, and so it belongs to one goroutine at a time.
type caller struct {
	driver *driver
	args   [11]uintptr // cuLaunchKernel has the most
}

// call calls a function. What an argument points to is on the heap already, where it
// doesn't move; so are a queue's fields.
func (c *caller) call(s symbol, args ...uintptr) result {
	n := copy(c.args[:], args)
	code, _, _ := purego.SyscallN(c.driver.entry[s], c.args[:n]...)
	return result(int32(code)) // the upper half of the register is undefined
}

// fill calls a function that writes to a variable: the pragma brings that to the heap
// where its address is taken in the call. It allocates.
//
//go:uintptrescapes
func (c *caller) fill(s symbol, args ...uintptr) result { return c.call(s, args...) }

// The oldest driver that reads the kernels' PTX.
const (
	oldestDriver = 12040 // as cuDriverGetVersion counts: 1000·major + 10·minor
	oldestNames  = "CUDA 12.4 or newer (550.54 or later on Linux, 551.61 on Windows)"
)

// check returns an error if the driver is too old.
func (d *driver) check() error {
	c := caller{driver: d}
	var version int32
	if code := c.fill(cuDriverGetVersion, uintptr(unsafe.Pointer(&version))); code != success {
		return d.fault("", cuDriverGetVersion, code, "")
	}
	if version < oldestDriver {
		return fmt.Errorf("%s: Leat needs a driver for %s, this one is for %d.%d",
			d.path, oldestNames, version/1000, version%1000/10)
	}
	return nil
}

// start makes the driver ready. It may be called again.
func (d *driver) start() error {
	c := caller{driver: d}
	if code := c.call(cuInit, 0); code != success {
		return d.fault("", cuInit, code, "")
	}
	return nil
}
