// The calls that allocate and free.

#include <limits.h>

#include "calls.h"
#include "memory.h"
#include "reports.h"
#include "streams.h"

namespace emulated {

// charged is what an allocation takes of a GPU's memory.
static uint64_t charged(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call("cuMemGetInfo", context, [&](Call &c) {
    if (free == nullptr || total == nullptr) return invalid_value;
    *free = c.context->gpu->total - c.context->gpu->used;
    *total = c.context->gpu->total;
    return success;
  });
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return call("cuMemAlloc", context, [&](Call &c) {
    if (address == nullptr || bytes == 0) return invalid_value;
    Gpu &g = *c.context->gpu;
    if (bytes > g.total || charged(bytes) > g.total - g.used) return out_of_memory;
    const Memory m = allocate_device(g.number, bytes, c.context->handle);
    if (m == nullptr) return out_of_memory;
    g.used += charged(bytes);
    *address = m->address;
    return success;
  });
}

// check_unused reports a free of what work may still use.
static void check_unused(const Call &c, const Memory &m) {
  auto work = m->kernels > 0 ? nullptr : pending(m, {0, m->size - 1}, false);
  if (work == nullptr) work = m->history.unknown_to(machine().host);
  if (work == nullptr && m->kernels == 0) return;
  const std::shared_ptr<Context> owner = find_context(m->context);
  if (owner != nullptr && owner->error != success) return; // its waits can only fail
  report(std::string(c.name) + " of " + (m->gpu < 0 ? "pinned memory " : "") + m->name() + " (" +
         std::to_string(m->size) + " bytes): " + (work == nullptr ? "a kernel" : work->name) +
         " uses it, and the host has not waited until that is done");
}

EXPORT int cuMemFree_v2(uint64_t address) {
  return call("cuMemFree", cleaning, [&](Call &c) {
    const Memory m = device_memory(address);
    if (m == nullptr || m->freed || m->address != address) {
      report(m != nullptr && m->freed ? "cuMemFree of memory that is freed: " + m->name()
                                      : "cuMemFree of " + address_name(address) +
                                            ", where no allocation begins");
      return invalid_value;
    }
    check_unused(c, m);
    machine().gpus[m->gpu]->used -= charged(m->size);
    forget(m);
    return success;
  });
}

EXPORT int cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", context, [&](Call &c) {
    if (host == nullptr || bytes == 0 || flags > 7) return invalid_value;
    const Memory m = allocate_pinned(bytes, c.context->handle);
    if (m == nullptr) return out_of_memory;
    m->portable = flags & 1;
    *host = m->bytes.get();
    return success;
  });
}

EXPORT int cuMemFreeHost(void *host) {
  return call("cuMemFreeHost", cleaning, [&](Call &c) {
    const Memory m = pinned_memory(host);
    if (m == nullptr || m->bytes.get() != host) {
      report("cuMemFreeHost of an address where no pinned memory begins");
      return invalid_value;
    }
    check_unused(c, m);
    forget(m);
    return success;
  });
}

} // namespace emulated
