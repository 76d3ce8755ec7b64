// The slow way of a kernel's reads and writes: the first touch of an allocation, and
// whatever is wrong.

#include <string.h>

#include "machine.h"
#include "reports.h"
#include "runner.h"

namespace emulated {

// Maps have at most so many granules, so that clearing and reading them costs little
// beside the launch.
constexpr uint64_t most_granules = 32768;

const char *check_read(uint64_t address, uint64_t base, unsigned size, unsigned alignment) {
  Runner *r = Runner::running();
  const char *from = r->check(address, base, size, alignment, false);
  if (from != nullptr) return from;
  memset(r->nowhere, 0, sizeof r->nowhere);
  return r->nowhere;
}

char *check_write(uint64_t address, uint64_t base, unsigned size, unsigned alignment) {
  Runner *r = Runner::running();
  char *to = r->check(address, base, size, alignment, true);
  return to != nullptr ? to : r->nowhere;
}

// check returns where an access goes, or nullptr after a report.
char *Runner::check(uint64_t address, uint64_t base, unsigned size, unsigned alignment,
                    bool write) {
  const std::string access =
      (write ? "write of " : "read of ") + std::to_string(size) + " bytes ";
  // An index so wrong that it leaves the allocation's part of the address space is not
  // an access to whatever lies there.
  if (address >> number_shift != base >> number_shift) {
    wrong(access + "far outside of " + address_name(base));
    return nullptr;
  }
  Held *h = hold(address, write);
  if (h == nullptr) return nullptr;
  const uint64_t offset = address - h->memory->address;
  if (offset >= h->memory->size || size > h->memory->size - offset) {
    wrong(access + "outside of an allocation: " + h->memory->where(address));
    return nullptr;
  }
  if (address % alignment != 0) {
    wrong(access + "at an address that isn't a multiple of " + std::to_string(alignment) + ": " +
          h->memory->where(address));
    return nullptr;
  }
  auto &map = write ? h->writes : h->reads;
  map[offset >> h->touched.shift] = 1;
  map[(offset + size - 1) >> h->touched.shift] = 1;
  return h->bytes.get() + offset;
}

// hold returns the allocation of an address, and makes it the one whose accesses are
// fast; or nullptr after a report.
Runner::Held *Runner::hold(uint64_t address, bool write) {
  for (Held *h : held) {
    if (h->memory->address >> number_shift != address >> number_shift) continue;
    touched[slot(address)] = h->touched;
    return h;
  }
  const std::string access = write ? "write" : "read";
  Lock lock;
  const Memory memory = device_memory(address);
  if (memory == nullptr) {
    wrong(access + " at " + address_name(address) + ", which was never allocated");
    return nullptr;
  }
  if (memory->freed) {
    wrong(access + " of freed memory: " + memory->where(address));
    return nullptr;
  }
  if (!(launch->reachable >> memory->gpu & 1)) {
    wrong(access + " of another GPU's memory without peer access: " + memory->where(address));
    return nullptr;
  }
  Held *h;
  if (spare.empty()) {
    h = new Held;
  } else {
    h = spare.back();
    spare.pop_back();
  }
  h->memory = memory;
  h->bytes = memory->bytes;
  memory->kernels++;
  unsigned shift = 4;
  while (memory->size >> shift >= most_granules) shift++;
  const size_t granules = (memory->size >> shift) + 1;
  h->reads.assign(granules, 0);
  h->writes.assign(granules, 0);
  const uint64_t first = memory->address;
  const uint64_t origin = reinterpret_cast<uintptr_t>(h->bytes.get()) - first;
  h->touched = {first, memory->size & ~15ull, origin, h->reads.data(), h->writes.data(), shift, nullptr};
  if (watching) {
    h->shadow.begin(first, memory->size);
    h->touched.shadow = &h->shadow;
  }
  held.push_back(h);
  touched[slot(address)] = h->touched;
  return h;
}

// intervals reads a map. Where there would be very many, close neighbours become one.
static Intervals intervals(const std::vector<unsigned char> &map, unsigned shift, uint64_t size) {
  constexpr size_t most = 64;
  for (size_t gap = 1;; gap *= 4) {
    Intervals found;
    size_t behind = 0; // the latest interval's end
    for (size_t i = 0; i < map.size(); i++) {
      uint64_t eight;
      if (i % 8 == 0 && i + 8 <= map.size()) {
        memcpy(&eight, &map[i], 8);
        if (eight == 0) {
          i += 7;
          continue;
        }
      }
      if (map[i] == 0) continue;
      const uint64_t last = ((uint64_t)(i + 1) << shift) - 1;
      if (!found.empty() && i - behind < gap) {
        found.back().last = last;
      } else {
        found.push_back({(uint64_t)i << shift, last});
      }
      behind = i + 1;
    }
    if (!found.empty() && found.back().last >= size) found.back().last = size - 1;
    if (found.size() <= most) return found;
  }
}

// release says what the launch touched and lets go of it.
void Runner::release(std::vector<Touch> &result) {
  result.clear();
  for (Held *h : held) {
    const unsigned shift = h->touched.shift;
    const uint64_t size = h->memory->size;
    result.push_back({h->memory, intervals(h->reads, shift, size), intervals(h->writes, shift, size)});
  }
  {
    Lock lock;
    for (Held *h : held) h->memory->kernels--;
  }
  for (Held *h : held) {
    h->memory.reset();
    h->bytes.reset();
    spare.push_back(h);
  }
  held.clear();
}

} // namespace emulated
