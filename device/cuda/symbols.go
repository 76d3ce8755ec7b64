package cuda

import "strings"

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

// symbolNames are the names that the library exports. A suffix such as _v2 is the version of a
// function whose parameters were once changed.
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

// String returns the function's name as in the documentation.
func (s symbol) String() string { return strings.TrimSuffix(symbolNames[s], "_v2") }

// Arguments of the driver's functions, by their names in its interface.
const (
	attributeCapabilityMajor = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	attributeCapabilityMinor = 76

	functionMaxThreads = 0 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

	streamNonBlocking = 1     // CU_STREAM_NON_BLOCKING: not ordered with the default stream
	eventForWaiting   = 1 | 2 // CU_EVENT_BLOCKING_SYNC: a waiting thread sleeps; CU_EVENT_DISABLE_TIMING

	hostPortable = 1 // CU_MEMHOSTALLOC_PORTABLE: usable by the contexts of all GPUs

	jitErrorLog      = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBytes = 6

	launchParams     = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBytes = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE, a pointer to it
	launchEnd        = 0
)
