// The block engine: runs a kernel's threads on the CPU. What the prelude needs of
// it comes first, what the driver needs after that.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace emulated {

// A device address tells the GPU, the allocation and the byte, so that no access can
// stray into a neighbour unseen:
//
//	bit 62      always set: no host address
//	58 to 61    the GPU
//	36 to 57    the allocation's number on that GPU
//	0 to 35     the byte, from 2^35 on: an index may go wrong by 2^35 either way
constexpr int number_shift = 36, gpu_shift = 58;
constexpr uint64_t address_tag = 1ull << 62;
constexpr uint64_t first_byte = 1ull << 35;
constexpr uint64_t number_mask = (1ull << 22) - 1;

struct Shadow;

// Touched is an allocation that a launch has touched. An access inside of size needs no
// check but of its alignment; what is read and written is noted in maps of granules.
struct Touched {
  uint64_t first;  // device address
  uint64_t size;   // in whole 16 bytes: an aligned access lies in them or doesn't
  uint64_t origin; // host address of a device address a: origin + a
  unsigned char *reads, *writes;
  unsigned shift; // a granule is 2^shift bytes
  Shadow *shadow; // for accesses that nothing orders
};

constexpr int slots = 64;
inline unsigned slot(uint64_t address) { return (unsigned)(address >> number_shift) % slots; }

// Engine is the part of a running block that its threads see.
struct Engine {
  int block[3];
  int thread, threads;
  bool watching; // for accesses that nothing orders
  Touched touched[slots];
};

// engine is of the OS thread that runs the block.
extern __thread Engine *engine;

// The slow ways of load and store: they return where the access goes, or after a
// report a place that reads as zeros and one where a write does no harm.
const char *check_read(uint64_t address, uint64_t base, unsigned size, unsigned alignment);
char *check_write(uint64_t address, uint64_t base, unsigned size, unsigned alignment);

// Where they watch, every access is told to one of these: see unordered.h.
void watch_device(uint64_t address, unsigned size, bool write);
void watch_shared(const void *at, long long i, bool write);

// shared_memory returns the block's array of that key, poisoned at its first use.
void *shared_memory(const void *key, size_t bytes);
void *wrong_shared(long long i, long long n, size_t size);

void wait_block(int line);
void wait_warp(int line);
// exchange gives v to the warp's other lanes and returns that of lane.
uint32_t exchange(uint32_t v, int lane, int line);

using Body = void (*)(const void *params);

// Registration makes a kernel known by its name.
struct Registration {
  Registration(const char *name, Body body, size_t size, size_t alignment, int threads);
  const char *name;
  Body body;
  size_t size, alignment;
  int threads;
  const Registration *next;
};

// registered returns the kernel of that name, or nullptr.
const Registration *registered(const char *name);

// poison is what memory holds that nobody has written: NaN as float.
constexpr uint32_t poison = 0x7fcdeadc;
void fill(void *memory, size_t bytes, uint32_t word);

} // namespace emulated
