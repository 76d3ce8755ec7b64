// Running a launch: what the driver needs of the block engine.
#pragma once

#include <string>
#include <vector>

#include "engine.h"
#include "fibers.h"
#include "memory.h"
#include "unordered.h"

namespace emulated {

// Launch is a kernel over a grid.
struct Launch {
  const Registration *kernel;
  const void *params;
  uint32_t grid[3];
  int gpu;
  uint32_t reachable; // bit g: memory of GPU g may be touched
  bool backwards;     // the order of blocks, warps and lanes
  bool watched;       // for accesses of threads that nothing orders
};

// Touch is what a launch did to one allocation.
struct Touch {
  Memory memory;
  Intervals reads, writes;
};

// Runner runs launches, one at a time, on the OS thread that calls it.
class Runner : private Engine {
public:
  Runner();
  ~Runner();

  // run returns whether all went well; if not there is a report. touched gets what the
  // launch touched.
  bool run(const Launch &launch, std::vector<Touch> &touched);

private:
  enum State : unsigned char { fresh, ready, at_exchange, at_warp, at_block, done };
  static constexpr int most_threads = 1024;
  static constexpr size_t most_shared = 48 << 10;

  // Held is an allocation that the launch has touched.
  struct Held {
    Memory memory;
    std::shared_ptr<char> bytes;
    std::vector<unsigned char> reads, writes;
    Touched touched;
    Shadow shadow;
  };

  friend const char *check_read(uint64_t, uint64_t, unsigned, unsigned);
  friend char *check_write(uint64_t, uint64_t, unsigned, unsigned);
  friend void watch_device(uint64_t, unsigned, bool);
  friend void watch_shared(const void *, long long, bool);
  friend void *shared_memory(const void *, size_t);
  friend void *wrong_shared(long long, long long, size_t);
  friend void wait_block(int);
  friend void wait_warp(int);
  friend uint32_t exchange(uint32_t, int, int);

  static Runner *running() { return static_cast<Runner *>(engine); }
  static void enter();
  void begin(int t);

  bool run_block();
  bool run_warp(int first, int behind);
  bool meet(int first, int behind);
  void wait(State state, int line);
  int next() const;
  void go(int t);
  void wrong(const std::string &what);
  std::string place() const;

  char *check(uint64_t address, uint64_t base, unsigned size, unsigned alignment, bool write);
  Held *hold(uint64_t address, bool write);
  void release(std::vector<Touch> &touched);

  void begin_watching();
  Moment moment() const;
  void unordered(const std::string &what, int other, bool write, bool wrote);

  const Launch *launch = nullptr;
  bool failed = false;
  Fibers fibers;
  State states[most_threads];
  short fiber_of[most_threads]; // of threads that are neither fresh nor done
  int lines[most_threads];
  unsigned char turns[most_threads]; // which of the two values a thread exchanges next
  uint32_t values[2][most_threads];
  std::vector<Held *> held, spare;
  std::vector<std::pair<const void *, size_t>> arrays; // key, offset in shared
  size_t shared_used = 0;
  uint32_t interval = 0, block_interval = 0, launch_interval = 0; // now; the first of the block, of the launch
  uint32_t epochs[most_threads / 32] = {};                        // of warps
  std::vector<Seen> shared_seen;                                  // of the element at that byte
  alignas(16) char shared[most_shared];
  alignas(16) char nowhere[64]; // where wrong writes go and wrong reads find zeros
};

} // namespace emulated
