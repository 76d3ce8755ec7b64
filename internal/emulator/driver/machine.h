// The emulated machine: its GPUs, what was configured, and the lock that guards all of
// the driver's state.
#pragma once

#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "races.h"

namespace emulated {

class Runner;
struct Context;

constexpr int most_gpus = 16;

// Pages is what is allocated of a GPU's memory.
struct Pages {
  uint64_t whole = 0;     // pages of large allocations
  uint64_t left_over = 0; // bytes of those pages
  uint64_t small = 0;     // bytes of small allocations
  uint64_t shared = 0;    // pages of those that aren't in what is left over
};

// Gpu is one emulated GPU.
struct Gpu {
  int number = 0;
  uint64_t total = 0; // bytes of memory
  Pages pages;
  std::shared_ptr<Context> context; // while it is retained
  int retained = 0;
  bool vanished = false;
  uint32_t peers = 0; // bit g: may have access to the memory of GPU g

  std::mutex running; // kernels run one at a time; guards runner and launches
  std::shared_ptr<Runner> runner;
  uint64_t launches = 0;
};

// Machine is the state of everything, but for what streams work on without the lock.
struct Machine {
  std::mutex mutex;
  std::condition_variable progress; // an operation or a stream has ended

  bool configured = false, initialized = false;
  bool lossy = false; // what goes directly from GPU to GPU doesn't arrive
  int driver_version = 0;
  bool watched = false; // launches are watched for accesses of threads that nothing orders
  std::vector<std::unique_ptr<Gpu>> gpus;

  Clock host; // what the host was told is done
  uint64_t handles = 0;
};

// machine lives as long as the process: threads may outlive static objects.
Machine &machine();

// Lock holds the machine's lock.
struct Lock : std::unique_lock<std::mutex> {
  Lock() : std::unique_lock<std::mutex>(machine().mutex) {}
};

// new_handle returns a handle that was never used before.
uint64_t new_handle();

// configure makes the machine anew from lines NAME=value, or from the environment where
// text is nullptr. It returns what is wrong, "" if nothing is. For the lock's holder.
std::string configure(const char *text);

} // namespace emulated
