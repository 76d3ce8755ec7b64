// Fibers: many stacks for one OS thread, switched by hand.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace emulated {

// Fibers is a pool of fibers. Its methods are for one OS thread.
class Fibers {
public:
  static constexpr size_t stack_bytes = 64 << 10;

  Fibers() = default;
  Fibers(const Fibers &) = delete;
  Fibers &operator=(const Fibers &) = delete;
  ~Fibers();

  // reserve makes fibers 0 to n-1. false: no memory.
  bool reserve(int n);

  // prepare makes fiber i ready to run entry from its beginning; what it did before is
  // forgotten.
  void prepare(int i, void (*entry)());

  // resume runs fiber i, and those that it switches to, until one switches back.
  void resume(int i);

  // entered is the first thing that entry calls. switch_to lets another fiber run, or
  // what called resume where i is −1; it returns when this one is to go on.
  void entered();
  void switch_to(int i);

  // running is the fiber that calls it.
  int running() const { return current; }

  // overflowed says that fiber i has written behind the end of its stack.
  bool overflowed(int i) const;

private:
  struct Fiber {
    char *stack;
    void *context; // where it goes on
  };
  // Stacks of a power of two would all begin in the same few places of the caches.
  static constexpr size_t stride = stack_bytes + (4 << 10);

  void leave(void **from, int to);
  void arrive(void *fake);

  std::vector<Fiber> fibers;
  char *stacks = nullptr;
  void *scheduler = nullptr; // where what called resume goes on
  int current = -1;
  // The rest is for the address sanitizer.
  [[maybe_unused]] bool from_scheduler = false;
  [[maybe_unused]] const void *scheduler_stack = nullptr;
  [[maybe_unused]] size_t scheduler_size = 0;
};

} // namespace emulated
