#include "races.h"

#include <algorithm>

#include "streams.h"

namespace emulated {

void join(Clock &into, const Clock &other) {
  if (into.size() < other.size()) into.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); i++) into[i] = std::max(into[i], other[i]);
}

bool known(const Clock &clock, int stream, uint32_t count) {
  return (size_t)stream < clock.size() && clock[stream] >= count;
}

// before says that a is done when b begins.
static bool before(const Work &a, const Work &b) { return known(b.clock, a.stream, a.count); }

// meet finds a byte that is in both.
static bool meet(const Intervals &a, const Intervals &b, uint64_t &offset) {
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    offset = std::max(a[i].first, b[k].first);
    if (offset <= std::min(a[i].last, b[k].last)) return true;
    if (a[i].last < b[k].last) i++; else k++;
  }
  return false;
}

// covers says that every byte of b is in a.
static bool covers(const Intervals &a, const Intervals &b) {
  size_t i = 0;
  for (const Interval &part : b) {
    while (i < a.size() && a[i].last < part.first) i++;
    if (i == a.size() || a[i].first > part.first || a[i].last < part.last) return false;
  }
  return true;
}

std::shared_ptr<const Work> History::note(const Access &access, uint64_t &offset) {
  std::shared_ptr<const Work> race;
  for (const Access &a : accesses) {
    if (!a.write && !access.write) continue;
    if (before(*a.work, *access.work) || before(*access.work, *a.work)) continue;
    if (race == nullptr && meet(a.intervals, access.intervals, offset)) race = a.work;
  }
  // An older access that comes before this one can be forgotten where whatever races
  // with it races with this one too. (What comes before this one has been noted: work
  // runs in the order that the clocks tell.)
  auto stale = [&](const Access &a) {
    return (access.write || !a.write) && before(*a.work, *access.work) &&
           covers(access.intervals, a.intervals);
  };
  accesses.erase(std::remove_if(accesses.begin(), accesses.end(), stale), accesses.end());
  accesses.push_back(access);
  if (accesses.size() >= prune_at) {
    auto past = [](const Access &a) { return settled(*a.work); };
    accesses.erase(std::remove_if(accesses.begin(), accesses.end(), past), accesses.end());
    prune_at = std::max<size_t>(64, 2 * accesses.size());
  }
  return race;
}

std::shared_ptr<const Work> History::unknown_to(const Clock &clock) const {
  for (const Access &a : accesses) {
    if (!known(clock, a.work->stream, a.work->count)) return a.work;
  }
  return nullptr;
}

} // namespace emulated
