// The calls that allocate and free.

#include <limits.h>

#include <algorithm>

#include "calls.h"
#include "memory.h"
#include "reports.h"
#include "streams.h"

namespace emulated {

// A GPU gives its memory away in pages of 2 MiB. What is larger than half a page begins
// with a page of its own; the rest lies in what is left over of those pages, and then in
// pages that it shares. So buffers take more memory than their sizes add up to.
constexpr uint64_t page = 2 << 20, step = 512;

static uint64_t pages_of(uint64_t bytes) { return (bytes + page - 1) / page; }

// with returns the pages with n more allocations of so many bytes; n is 1 or -1.
static Pages with(Pages p, uint64_t bytes, int n) {
  const uint64_t stepped = (bytes + step - 1) / step * step;
  if (bytes > page / 2) {
    p.whole += n * pages_of(bytes);
    p.left_over += n * (pages_of(bytes) * page - stepped);
  } else {
    p.small += n * stepped;
  }
  // Small ones stay where they are: room that comes later doesn't save their pages.
  const uint64_t least = p.small > p.left_over ? pages_of(p.small - p.left_over) : 0;
  p.shared = std::max(least, std::min(p.shared, pages_of(p.small)));
  return p;
}

static uint64_t used(const Pages &p) { return (p.whole + p.shared) * page; }

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call("cuMemGetInfo", context, [&](Call &c) {
    if (free == nullptr || total == nullptr) return invalid_value;
    const Gpu &g = *c.context->gpu;
    *free = g.total - std::min(g.total, used(g.pages));
    *total = g.total;
    return success;
  });
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return call("cuMemAlloc", context, [&](Call &c) {
    if (address == nullptr || bytes == 0) return invalid_value;
    Gpu &g = *c.context->gpu;
    if (bytes > g.total) return out_of_memory;
    const Pages pages = with(g.pages, bytes, 1);
    if (used(pages) > g.total) return out_of_memory;
    const Memory m = allocate_device(g.number, bytes, c.context->handle);
    if (m == nullptr) return out_of_memory;
    g.pages = pages;
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
    Gpu &g = *machine().gpus[m->gpu];
    g.pages = with(g.pages, m->size, -1);
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
