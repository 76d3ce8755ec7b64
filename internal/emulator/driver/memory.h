// Device memory and pinned host memory: the table in which every access is looked up.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "races.h"

namespace emulated {

// Allocation is memory of a GPU, or of the host where gpu is −1. The machine's lock
// guards freed and history.
struct Allocation {
  int gpu = -1;
  uint64_t address = 0, size = 0; // pinned memory's address is the host's
  std::shared_ptr<char> bytes;    // whoever works on it holds it, so that a free is harmless
  bool freed = false;
  uint64_t context = 0;   // to which it belongs
  bool portable = false;  // pinned for all contexts
  int kernels = 0;      // that run on it now
  History history;

  // name tells it from others, where names a byte of it too.
  std::string name() const;
  std::string where(uint64_t at) const;
};

using Memory = std::shared_ptr<Allocation>;

// address_name is a device address as a reader understands it.
std::string address_name(uint64_t address);

// All of these are for whoever holds the machine's lock.

// allocate_device returns memory full of poison, or nullptr where the host has none.
Memory allocate_device(int gpu, uint64_t size, uint64_t context);
Memory allocate_pinned(uint64_t size, uint64_t context);

// device_memory returns the allocation that a device address belongs to, freed or not,
// or nullptr. The address may lie outside of it.
Memory device_memory(uint64_t address);

// pinned_memory returns the pinned memory that holds the host address, or nullptr.
Memory pinned_memory(const void *address);

// forget frees an allocation.
void forget(const Memory &memory);

// allocations returns what a context has left.
std::vector<Memory> allocations(uint64_t context);

} // namespace emulated
