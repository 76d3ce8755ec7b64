// Races: work of two streams that touches the same bytes, one of them writing, with no
// event that says which comes first. What happens before what is told by vector clocks,
// so that a race is found whatever the order in which the streams happened to run.
#pragma once

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

namespace emulated {

// Clock has, for each stream, how many of its operations are known to be done.
using Clock = std::vector<uint32_t>;

void join(Clock &into, const Clock &other);
bool known(const Clock &clock, int stream, uint32_t count);

// Interval is a range of bytes of an allocation, by offsets; last is inside.
struct Interval {
  uint64_t first, last;
};
using Intervals = std::vector<Interval>;

struct Context;

// Work is an operation as far as races are concerned.
struct Work {
  int stream;     // the index in clocks
  uint32_t count; // it is the stream's count-th operation
  Clock clock;    // what is done before it begins
  std::string name;
  std::shared_ptr<Context> context;
};

// Access is what a piece of work did to an allocation.
struct Access {
  std::shared_ptr<const Work> work;
  bool write;
  Intervals intervals;
};

// History is what was done to an allocation, as far as later work may still race with
// it. The machine's lock guards it.
class History {
public:
  // note adds an access and returns the first work that it races with and a byte of
  // both, or nullptr.
  std::shared_ptr<const Work> note(const Access &access, uint64_t &offset);

  // unknown_to returns work of which the clock doesn't know that it is done, or nullptr.
  std::shared_ptr<const Work> unknown_to(const Clock &clock) const;

private:
  std::vector<Access> accesses;
  size_t prune_at = 64;
};

} // namespace emulated
