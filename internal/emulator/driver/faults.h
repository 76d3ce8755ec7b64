// Faults: calls that fail, GPUs that vanish, are slow or busy, as LEAT_EMULATED_FAULT
// says.
#pragma once

#include <stdint.h>

#include <string>

#include "errors.h"

namespace emulated {

struct Gpu;

// set_faults replaces all faults and counts anew. It returns what is wrong with the
// text, "" if nothing is.
std::string set_faults(const std::string &text);

// fault counts a call (without _v2) on a GPU, −1 if on none, and returns the error that
// it is to fail with.
Result fault(const std::string &call, int gpu);

// vanishes counts a launch on a GPU and says that the GPU is gone from now on.
bool vanishes(int gpu);

// slowness is how many nanoseconds a launch takes at least.
uint64_t slowness(int gpu);

} // namespace emulated
