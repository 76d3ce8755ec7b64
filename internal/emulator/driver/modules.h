// Modules: PTX, of which the emulator knows the kernels by their names.
#pragma once

#include <stdint.h>

#include <memory>

#include "contexts.h"
#include "engine.h"

namespace emulated {

// Function is an entry point of a module.
struct Function {
  std::shared_ptr<Context> context;
  uint64_t module;
  const Registration *kernel;
  int ptx_version;
};

// find_function returns the function of that handle, or nullptr.
const Function *find_function(uint64_t handle);

// forget_modules unloads a context's modules and returns how many there were.
int forget_modules(const Context &context);

} // namespace emulated
