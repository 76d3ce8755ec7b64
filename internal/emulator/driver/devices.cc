// What the driver says of itself and of its GPUs.

#include <stdio.h>
#include <string.h>

#include "calls.h"

namespace emulated {

EXPORT int cuInit(unsigned flags) {
  return call("cuInit", nothing, [&](Call &) {
    if (flags != 0) return invalid_value;
    if (machine().gpus.empty()) return no_device;
    machine().initialized = true;
    return success;
  });
}

EXPORT int cuDriverGetVersion(int *version) {
  return call("cuDriverGetVersion", nothing, [&](Call &) {
    if (version == nullptr) return invalid_value;
    *version = machine().driver_version;
    return success;
  });
}

static bool exists(int gpu) { return gpu >= 0 && (size_t)gpu < machine().gpus.size(); }

EXPORT int cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", driver, [&](Call &) {
    if (count == nullptr) return invalid_value;
    *count = (int)machine().gpus.size();
    return success;
  });
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  return call("cuDeviceGet", driver, ordinal, [&](Call &) {
    if (device == nullptr) return invalid_value;
    if (!exists(ordinal)) return invalid_device;
    *device = ordinal;
    return success;
  });
}

// print writes text to a caller's buffer of n bytes.
static Result print(char *to, int n, const char *text) {
  if (to == nullptr || n <= 0) return invalid_value;
  snprintf(to, (size_t)n, "%s", text);
  return success;
}

EXPORT int cuDeviceGetName(char *name, int n, int gpu) {
  return call("cuDeviceGetName", driver, gpu, [&](Call &) {
    return exists(gpu) ? print(name, n, "Leat emulated GPU") : invalid_device;
  });
}

EXPORT int cuDeviceGetPCIBusId(char *id, int n, int gpu) {
  return call("cuDeviceGetPCIBusId", driver, gpu, [&](Call &) {
    char text[16];
    snprintf(text, sizeof text, "0000:%02X:00.0", 0xe0 + (gpu & 15));
    return exists(gpu) ? print(id, n, text) : invalid_device;
  });
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int gpu) {
  return call("cuDeviceTotalMem", driver, gpu, [&](Call &) {
    if (bytes == nullptr) return invalid_value;
    if (!exists(gpu)) return invalid_device;
    *bytes = machine().gpus[gpu]->total;
    return success;
  });
}

// The attributes that a program may want to plan with. Those of speed are made up.
static const struct {
  int attribute, value;
} attributes[] = {
    {1, 1024},                           // threads a block
    {2, 1024}, {3, 1024}, {4, 64},       // block's x, y, z
    {5, 0x7fffffff}, {6, 65535}, {7, 65535}, // grid's x, y, z
    {8, 48 << 10},                       // shared memory a block
    {10, 32},                            // a warp's lanes
    {12, 65536},                         // registers a block
    {13, 1000000}, {36, 1000000},        // clocks of cores and memory, in kHz
    {16, 1},                             // multiprocessors
    {18, 0},                             // integrated with the host's memory
    {19, 1},                             // can map host memory
    {20, 0},                             // compute mode: anybody may use it
    {31, 0},                             // concurrent kernels
    {34, 0}, {50, 0},                    // PCI device and domain
    {37, 64},                            // width of the memory's bus
    {38, 1 << 20},                       // second level cache
    {39, 1024},                          // threads a multiprocessor
    {40, 2},                             // copy engines
    {41, 1},                             // unified addressing
    {75, 9}, {76, 0},                    // compute capability
    {81, 64 << 10},                      // shared memory a multiprocessor
    {97, 48 << 10},                      // shared memory a block may opt in to
};

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int gpu) {
  return call("cuDeviceGetAttribute", driver, gpu, [&](Call &) {
    if (value == nullptr) return invalid_value;
    if (!exists(gpu)) return invalid_device;
    if (attribute == 33) { // PCI bus
      *value = 0xe0 + gpu;
      return success;
    }
    for (const auto &a : attributes) {
      if (a.attribute != attribute) continue;
      *value = a.value;
      return success;
    }
    return invalid_value;
  });
}

EXPORT int cuDeviceCanAccessPeer(int *can, int gpu, int peer) {
  return call("cuDeviceCanAccessPeer", driver, gpu, [&](Call &) {
    if (can == nullptr) return invalid_value;
    if (!exists(gpu) || !exists(peer)) return invalid_device;
    *can = machine().gpus[gpu]->peers >> peer & 1;
    return success;
  });
}

} // namespace emulated
