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

// Gpu is one emulated GPU.
struct Gpu {
  int number = 0;
  uint64_t total = 0, used = 0; // bytes of memory
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
  int driver_version = 0;
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
