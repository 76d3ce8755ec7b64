#include "contexts.h"

#include "calls.h"
#include "events.h"
#include "faults.h"
#include "memory.h"
#include "modules.h"
#include "reports.h"
#include "streams.h"

namespace emulated {

static __thread uint64_t current;

uint64_t current_context() { return current; }

std::shared_ptr<Context> find_context(uint64_t handle) {
  for (const auto &g : machine().gpus) {
    if (g->context != nullptr && g->context->handle == handle) return g->context;
  }
  return nullptr;
}

void fail(Context &context, Result code) {
  if (context.error != success || !sticky(code)) return;
  context.error = code;
  machine().progress.notify_all();
}

Result begin(Call &c, Needs needs, int gpu) {
  Machine &m = machine();
  if (!m.configured) {
    const std::string wrong = configure(nullptr);
    if (!wrong.empty()) report(wrong);
  }
  if (needs == nothing) return fault(c.name, -1);
  if (!m.initialized) return not_initialized;
  if (needs == context || needs == cleaning) {
    c.context = find_context(current);
    if (c.context == nullptr) {
      report(std::string(c.name) + " was called on a thread " +
             (current == 0 ? "without a current context"
                           : "whose current context was released for the last time"));
      return current == 0 ? invalid_context : context_is_destroyed;
    }
    gpu = c.context->gpu->number;
  }
  Result refused = success;
  if (gpu >= 0 && (size_t)gpu < m.gpus.size() && m.gpus[gpu]->vanished) refused = launch_failed;
  const Result faulty = fault(c.name, gpu);
  if (c.context != nullptr) {
    fail(*c.context, faulty);
    if (refused == success) refused = faulty != success ? faulty : c.context->error;
  } else if (refused == success) {
    refused = faulty;
  }
  if (needs != cleaning) return refused;
  c.refused = refused;
  quiesce(c);
  return success;
}

static Gpu *find_gpu(int gpu) {
  auto &gpus = machine().gpus;
  return gpu >= 0 && (size_t)gpu < gpus.size() ? gpus[gpu].get() : nullptr;
}

EXPORT int cuDevicePrimaryCtxRetain(uint64_t *context, int gpu) {
  return call("cuDevicePrimaryCtxRetain", driver, gpu, [&](Call &) {
    Gpu *g = find_gpu(gpu);
    if (g == nullptr) return invalid_device;
    if (context == nullptr) return invalid_value;
    if (g->context == nullptr) {
      g->context = std::make_shared<Context>();
      g->context->handle = new_handle();
      g->context->gpu = g;
    }
    g->retained++;
    *context = g->context->handle;
    return success;
  });
}

// release frees what is left in a context and reports it, unless the context failed:
// then nobody can be asked to have freed it.
static void release(Call &c, Gpu &g) {
  const std::shared_ptr<Context> context = g.context;
  close_streams(c, *context);
  const std::string behind = " of GPU " + std::to_string(g.number) +
                             " left when its context was released for the last time";
  const int events = forget_events(*context), modules = forget_modules(*context);
  const auto memory = allocations(context->handle);
  for (const Memory &m : memory) forget(m);
  g.context = nullptr;
  g.pages = {};
  for (const auto &other : machine().gpus) { // access was to what is gone
    if (other->context != nullptr) other->context->peers &= ~(1u << g.number);
  }
  if (context->error != success || g.vanished) return;
  if (events > 0) report(std::to_string(events) + " events" + behind);
  if (modules > 0) report(std::to_string(modules) + " modules" + behind);
  for (const Memory &m : memory) {
    report((m->gpu < 0 ? "pinned memory of " : "an allocation of ") + std::to_string(m->size) +
           " bytes (" + m->name() + ")" + behind);
  }
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int gpu) {
  return call("cuDevicePrimaryCtxRelease", driver, [&](Call &c) {
    Gpu *g = find_gpu(gpu);
    if (g == nullptr) return invalid_device;
    if (g->retained == 0) return invalid_context;
    const Result faulty = fault(c.name, gpu);
    if (--g->retained == 0) release(c, *g);
    return faulty;
  });
}

EXPORT int cuCtxSetCurrent(uint64_t context) {
  return call("cuCtxSetCurrent", driver, [&](Call &c) {
    if (context != 0 && find_context(context) == nullptr) return invalid_context;
    const Result faulty =
        context == 0 ? success : fault(c.name, find_context(context)->gpu->number);
    if (faulty == success) current = context;
    return faulty;
  });
}

EXPORT int cuCtxGetCurrent(uint64_t *context) {
  return call("cuCtxGetCurrent", driver, [&](Call &) {
    if (context == nullptr) return invalid_value;
    *context = current;
    return success;
  });
}

EXPORT int cuCtxEnablePeerAccess(uint64_t peer, unsigned flags) {
  return call("cuCtxEnablePeerAccess", context, [&](Call &c) {
    const auto other = find_context(peer);
    if (other == nullptr) return invalid_context;
    if (flags != 0) return invalid_value;
    if (other == c.context) return invalid_context;
    const uint32_t bit = 1u << other->gpu->number;
    if (!(c.context->gpu->peers & bit)) return peer_access_unsupported;
    if (c.context->peers & bit) return peer_access_already_enabled;
    c.context->peers |= bit;
    return success;
  });
}

} // namespace emulated
