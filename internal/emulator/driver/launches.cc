// Launches.

#include <string.h>

#include <chrono>

#include "faults.h"
#include "modules.h"
#include "reports.h"
#include "streams.h"

namespace emulated {

// Params is a kernel's parameter, copied at the call.
struct Params {
  alignas(16) char bytes[4096];
};

// params_from takes the parameter from either form in which the driver is given it.
static Result params_from(const Registration &k, void **params, void **extra, Params &to) {
  enum { end = 0, buffer_pointer = 1, buffer_size = 2 };
  if ((params == nullptr) == (extra == nullptr) || k.size > sizeof to.bytes) return invalid_value;
  if (params != nullptr) {
    if (params[0] == nullptr) return invalid_value;
    memcpy(to.bytes, params[0], k.size);
    return success;
  }
  const void *buffer = nullptr;
  size_t size = 0;
  for (int i = 0; reinterpret_cast<uintptr_t>(extra[i]) != end; i += 2) {
    switch (reinterpret_cast<uintptr_t>(extra[i])) {
    case buffer_pointer: buffer = extra[i + 1]; break;
    case buffer_size: size = *static_cast<const size_t *>(extra[i + 1]); break;
    default: return invalid_value;
    }
  }
  if (buffer == nullptr || size != k.size) {
    report(std::string(k.name) + " was launched with " + std::to_string(size) +
           " bytes of parameters, it takes " + std::to_string(k.size));
    return invalid_value;
  }
  memcpy(to.bytes, buffer, size);
  return success;
}

static bool fits(const Registration &k, const unsigned grid[3], const unsigned block[3]) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return false;
  if (grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535) return false;
  if (block[0] == (unsigned)k.threads && block[1] == 1 && block[2] == 1) return true;
  report(std::string(k.name) + " was launched with blocks of (" + std::to_string(block[0]) + ", " +
         std::to_string(block[1]) + ", " + std::to_string(block[2]) + ") threads, it takes (" +
         std::to_string(k.threads) + ", 1, 1)");
  return false;
}

// run runs a launch on its GPU, when no other kernel runs there.
static Result run(Gpu &g, Launch l, std::chrono::nanoseconds least, std::vector<Touch> &touches) {
  const std::lock_guard<std::mutex> alone(g.running);
  const auto from = std::chrono::steady_clock::now();
  // In every second launch the other way round: no order is promised.
  l.backwards = g.launches++ % 2 == 1;
  const bool good = g.runner->run(l, touches);
  if (least.count() > 0) std::this_thread::sleep_until(from + least);
  return good ? success : illegal_address;
}

EXPORT int cuLaunchKernel(uint64_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          uint64_t stream, void **params, void **extra) {
  return call("cuLaunchKernel", context, [&](Call &c) {
    Gpu *g = c.context->gpu;
    const Function *f = find_function(function);
    const auto s = find_stream(stream);
    if (f == nullptr || s == nullptr) return invalid_handle;
    if (f->context != c.context || s->context != c.context) {
      report(std::string("cuLaunchKernel of ") + f->kernel->name +
             ": function, stream and current context aren't of one GPU");
      return invalid_handle;
    }
    if (vanishes(g->number)) {
      g->vanished = true;
      fail(*c.context, launch_failed);
      return launch_failed;
    }
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    if (shared != 0 || !fits(*f->kernel, grid, block)) return invalid_value;
    const auto copied = std::make_shared<Params>();
    const Result r = params_from(*f->kernel, params, extra, *copied);
    if (r != success) return r;
    const Launch l{f->kernel, copied->bytes, {grid_x, grid_y, grid_z}, g->number,
                   c.context->peers | 1u << g->number, false, machine().watched};
    const std::chrono::nanoseconds least(slowness(g->number));
    const std::string name = std::string(f->kernel->name) + " in stream " +
                             std::to_string(s->index) + " of GPU " + std::to_string(g->number);
    enqueue(*s, name, {nullptr, {}, [=](std::vector<Touch> &touches) {
              const auto held = copied; // l points to it
              return run(*g, l, least, touches);
            }, nullptr, nullptr});
    return success;
  });
}

} // namespace emulated
