#include "errors.h"

#include "calls.h"

namespace emulated {

struct Description {
  int code;
  const char *name, *text;
};

static const Description descriptions[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "no peer access between these devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "the PTX could not be compiled"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the PTX compiler's library was not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is of a newer toolchain"},
    {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "compiling PTX is disabled"},
    {226, "CUDA_ERROR_CONTAINED", "an error that the GPU has contained"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the operating system failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", "peer resources exhausted"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on this address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "a kernel left tensor memory behind"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and library don't match"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "the compatibility library does not know this GPU"},
    {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the server has ended this client"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE", "error of a device outside of CUDA"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

bool sticky(Result code) {
  switch ((int)code) {
  case 214: case 220: case 226: case 700: case 702: case 709: case 710: case 714: case 715:
  case 716: case 717: case 718: case 719: case 721: case 810: case 911: case 999:
    return true;
  }
  return false;
}

static Result describe(int code, const char **to, const char *Description::*what) {
  if (to == nullptr) return invalid_value;
  for (const Description &d : descriptions) {
    if (d.code != code) continue;
    *to = d.*what;
    return success;
  }
  *to = nullptr;
  return invalid_value;
}

EXPORT int cuGetErrorName(int code, const char **name) {
  return describe(code, name, &Description::name);
}

EXPORT int cuGetErrorString(int code, const char **text) {
  return describe(code, text, &Description::text);
}

} // namespace emulated
