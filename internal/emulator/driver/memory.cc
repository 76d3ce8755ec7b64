#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

#include <deque>
#include <map>
#include <unordered_map>

#include "machine.h"

namespace emulated {

// Freed allocations are remembered, so that a late access can be told from a wild one,
// but not without end: a process that opens and closes devices stays as large as it is.
constexpr size_t most_freed = 1 << 12;

struct Table {
  std::unordered_map<uint64_t, Memory> device; // by what is above the byte's bits
  std::map<uint64_t, Memory> pinned;           // by host address
  std::deque<uint64_t> freed;
  uint64_t numbers[most_gpus] = {};
};

static Table &table() {
  static Table *t = new Table;
  return *t;
}

static std::shared_ptr<char> poisoned(uint64_t size, size_t alignment) {
  const uint64_t whole = (size + alignment - 1) / alignment * alignment;
  char *p = whole < size ? nullptr : static_cast<char *>(aligned_alloc(alignment, whole));
  if (p == nullptr) return nullptr;
  fill(p, whole, poison);
  return std::shared_ptr<char>(p, free);
}

Memory allocate_device(int gpu, uint64_t size, uint64_t context) {
  const auto bytes = poisoned(size, 256);
  if (bytes == nullptr || size >= first_byte) return nullptr;
  uint64_t key;
  do {
    table().numbers[gpu] = table().numbers[gpu] % number_mask + 1;
    key = (address_tag | (uint64_t)gpu << gpu_shift) >> number_shift | table().numbers[gpu];
  } while (table().device.count(key) != 0);
  auto m = std::make_shared<Allocation>();
  m->gpu = gpu;
  m->address = key << number_shift | first_byte;
  m->size = size;
  m->bytes = bytes;
  m->context = context;
  table().device[key] = m;
  return m;
}

Memory allocate_pinned(uint64_t size, uint64_t context) {
  const auto bytes = poisoned(size, 4096);
  if (bytes == nullptr) return nullptr;
  auto m = std::make_shared<Allocation>();
  m->address = reinterpret_cast<uint64_t>(bytes.get());
  m->size = size;
  m->bytes = bytes;
  m->context = context;
  table().pinned[m->address] = m;
  return m;
}

Memory device_memory(uint64_t address) {
  const auto found = table().device.find(address >> number_shift);
  return found == table().device.end() ? nullptr : found->second;
}

Memory pinned_memory(const void *address) {
  const uint64_t a = reinterpret_cast<uint64_t>(address);
  auto above = table().pinned.upper_bound(a);
  if (above == table().pinned.begin()) return nullptr;
  const Memory &m = (--above)->second;
  return a - m->address < m->size ? m : nullptr;
}

void forget(const Memory &m) {
  m->freed = true;
  m->bytes.reset();
  m->history = History();
  if (m->gpu < 0) {
    table().pinned.erase(m->address);
    return;
  }
  table().freed.push_back(m->address >> number_shift);
  if (table().freed.size() > most_freed) {
    table().device.erase(table().freed.front());
    table().freed.pop_front();
  }
}

std::vector<Memory> allocations(uint64_t context) {
  std::vector<Memory> found;
  for (auto &entry : table().device) {
    if (!entry.second->freed && entry.second->context == context) found.push_back(entry.second);
  }
  for (auto &entry : table().pinned) {
    if (entry.second->context == context) found.push_back(entry.second);
  }
  return found;
}

std::string address_name(uint64_t address) {
  char hex[24];
  snprintf(hex, sizeof hex, "0x%llx", (unsigned long long)address);
  if (address >> 62 != 1) return std::string(hex) + " (no device address)";
  const long long offset = (long long)(address & (2 * first_byte - 1)) - (long long)first_byte;
  return std::string(hex) + " (byte " + std::to_string(offset) + " of allocation " +
         std::to_string(address >> number_shift & number_mask) + " of GPU " +
         std::to_string(address >> gpu_shift & (most_gpus - 1)) + ")";
}

std::string Allocation::name() const {
  char hex[24];
  snprintf(hex, sizeof hex, "0x%llx", (unsigned long long)address);
  if (gpu < 0) return std::string("at ") + hex;
  return "allocation " + std::to_string(address >> number_shift & number_mask);
}

std::string Allocation::where(uint64_t at) const {
  if (gpu >= 0) return address_name(at) + ", which has " + std::to_string(size) + " bytes";
  return "byte " + std::to_string((long long)(at - address)) + " of " + std::to_string(size) +
         " bytes of pinned memory";
}

} // namespace emulated
