// Events: marks in a stream that others wait for.
#pragma once

namespace emulated {

struct Context;

// forget_events destroys a context's events and returns how many there were.
int forget_events(const Context &context);

} // namespace emulated
