package cuda

// advice returns the usual cause of an error that the user can resolve on the machine, and
// what to do. It returns "" if there is nothing to add to the driver's message.
func advice(s symbol, code result) string {
	switch code {
	case stubLibrary:
		return "this is the CUDA toolkit's stub, not the driver: take its folder out of the library path"
	case systemNotReady:
		return "on a machine with NVSwitch, see whether the fabric manager runs"
	case driverMismatch:
		return "the library and the kernel module are of two drivers: after an update, restart the machine; in a container, don't install a driver"
	case compatNotSupported:
		return "a CUDA compatibility package, which this GPU can't use, comes before the driver in the library path"
	case noCompiler:
		return "the driver's PTX compiler (libnvidia-ptxjitcompiler) isn't installed"
	case unsupportedPTX:
		return "the driver needs to be for " + oldestNames
	case compilerOff:
		return "the environment variable CUDA_DISABLE_PTX_JIT forbids it"
	}
	switch {
	case s == cuDevicePrimaryCtxRetain && code == deviceUnavailable:
		return "the GPU is busy: another process may have it for itself"
	case s == cuDevicePrimaryCtxRetain && code == outOfMemory:
		return "the GPU has no memory left for another process"
	case s != cuInit:
		return ""
	}
	switch code {
	case noDevice:
		return "is there none, does CUDA_VISIBLE_DEVICES hide it, or was the container started without GPUs?"
	case unknownError:
		return "the kernel module nvidia-uvm may not be loaded, or /dev/nvidia-uvm be out of reach; nvidia-smi tells more"
	}
	return ""
}
