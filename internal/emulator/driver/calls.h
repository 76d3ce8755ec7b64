// What all calls of the driver have in common: the lock, the current context, faults,
// and errors that stay.
#pragma once

#include <memory>

#include "contexts.h"
#include "errors.h"
#include "machine.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace emulated {

// Call is one call of the driver while it runs.
struct Call {
  const char *name;
  Lock lock;
  std::shared_ptr<Context> context; // the thread's current one, if the call needs it
  Result refused = success;         // what it returns whatever it does
};

// Needs is what a call can't do without.
enum Needs {
  nothing,  // callable before cuInit
  driver,   // cuInit
  context,  // a current context
  cleaning, // a current context; what it frees is freed even if the call fails
};

// begin does what comes before the body of a call that works on a GPU (or the current
// context's where gpu is −1). If it returns an error the body isn't run.
Result begin(Call &c, Needs needs, int gpu);

// call runs the body of a driver call. No exception leaves it.
template <class Body> int call(const char *name, Needs needs, int gpu, Body body) {
  try {
    Call c{name, Lock(), nullptr, success};
    const Result r = begin(c, needs, gpu);
    if (r != success) return r;
    const Result done = body(c);
    return c.refused != success ? c.refused : done;
  } catch (const std::bad_alloc &) {
    return out_of_memory;
  } catch (...) {
    return unknown;
  }
}

template <class Body> int call(const char *name, Needs needs, Body body) {
  return call(name, needs, -1, body);
}

} // namespace emulated
