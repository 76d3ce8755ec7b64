// Contexts: each GPU has one, which its users retain and release.
#pragma once

#include <stdint.h>

#include <memory>
#include <vector>

#include "errors.h"
#include "machine.h"

namespace emulated {

struct Stream;

// Context is a GPU's primary context while it is retained. The machine's lock guards it.
struct Context {
  uint64_t handle;
  Gpu *gpu;
  Result error = success; // sticky
  uint32_t peers = 0;     // bit g: access to the memory of GPU g is enabled
  std::vector<std::shared_ptr<Stream>> streams; // whose threads run
};

// find_context returns the retained context of that handle, or nullptr.
std::shared_ptr<Context> find_context(uint64_t handle);

// current_context is the handle of the calling thread's context, 0 if none.
uint64_t current_context();

// fail makes an error stay with the context, if it is of that kind and the first.
void fail(Context &context, Result code);

} // namespace emulated
