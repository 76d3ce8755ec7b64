#include "unordered.h"

#include "runner.h"

namespace emulated {

// unordered returns the thread of an earlier access that isn't ordered with now.
int Seen::unordered(const Access &a, const Moment &now) {
  if (a.interval < now.oldest) return nobody;
  if (a.interval < now.block) return another_block;
  if (a.interval != now.interval || a.thread == now.thread) return nobody;
  return a.thread / 32 != now.thread / 32 || a.epoch == now.epoch ? a.thread : nobody;
}

int Seen::unordered_read(const Moment &now) const {
  const int other = unordered(read, now);
  if (other != nobody || read.interval < now.oldest) return other;
  if (several & blocks) return another_block;
  if (read.interval != now.interval) return nobody;
  // The last reader was this thread, or one of its warp in an earlier epoch.
  if (several & warps || (several & lanes && read.epoch == now.epoch)) return read.thread;
  return nobody;
}

void Seen::keep_read(const Moment &now) {
  if (read.interval < now.oldest) {
    several = 0;
  } else if (read.interval < now.block) {
    several = blocks;
  } else if (read.interval != now.interval) {
    several &= blocks;
  } else if (read.thread / 32 != now.thread / 32) {
    several |= warps;
  } else if (read.epoch != now.epoch) {
    several &= ~lanes;
  } else if (read.thread != now.thread) {
    several |= lanes;
  }
  read = {now.interval, now.epoch, now.thread};
}

int Seen::note(const Moment &now, bool write, bool &wrote) {
  int other = unordered(written, now);
  wrote = other != nobody;
  if (write) {
    if (other == nobody) other = unordered_read(now);
    written = {now.interval, now.epoch, now.thread};
  } else {
    keep_read(now);
  }
  return other;
}

void Shadow::begin(uint64_t address, uint64_t bytes) {
  first = address;
  size = bytes;
  if (unit != 4) pages.clear(); // most launches touch whole words
  unit = 4;
  pages.resize(bytes / (unit * page) + 1);
}

Seen &Shadow::at(uint64_t i) {
  auto &p = pages[i / page];
  if (p == nullptr) p.reset(new Seen[page]);
  return p[i % page];
}

void Shadow::split() {
  std::vector<std::unique_ptr<Seen[]>> words;
  words.swap(pages);
  const unsigned parts = unit;
  unit = 1;
  pages.resize(size / page + 1);
  for (uint64_t i = 0; i < words.size() * page; i++) {
    if (words[i / page] == nullptr) {
      i += page - 1;
      continue;
    }
    for (uint64_t b = 0; b < parts && i * parts + b < size; b++) at(i * parts + b) = words[i / page][i % page];
  }
}

Moment Runner::moment() const {
  return {interval, epochs[thread / 32], thread, block_interval, launch_interval};
}

// begin_watching is for a new launch. Old intervals are forgotten before the count ends.
void Runner::begin_watching() {
  watching = launch->watched;
  if (!watching) return;
  if (interval > 1u << 30) {
    interval = 0;
    shared_seen.clear();
    for (Held *h : spare) h->shadow.pages.clear();
  }
  shared_seen.resize(most_shared);
  launch_interval = interval + 1;
}

void Runner::unordered(const std::string &what, int other, bool write, bool wrote) {
  std::string who = other == Seen::another_block ? "another block" : "thread " + std::to_string(other);
  if (other == thread) who = "another thread of the block";
  wrong(std::string(write ? "writes " : "reads ") + what + ", which " + who +
        (wrote ? " has written" : " has read") +
        (other == Seen::another_block ? " in the same launch" : ", and no barrier is between"));
}

void watch_device(uint64_t address, unsigned size, bool write) {
  Runner *r = Runner::running();
  Shadow *s = r->touched[slot(address)].shadow;
  if (r->failed || s == nullptr || address - s->first >= s->size) return;
  if (s->unit > 1 && (size % s->unit != 0 || address % s->unit != 0)) s->split();
  const Moment now = r->moment();
  const uint64_t offset = address - s->first;
  for (uint64_t i = offset / s->unit; i * s->unit < offset + size; i++) {
    bool wrote;
    const int other = s->at(i).note(now, write, wrote);
    if (other != Seen::nobody) return r->unordered(address_name(s->first + i * s->unit), other, write, wrote);
  }
}

void watch_shared(const void *at, long long i, bool write) {
  Runner *r = Runner::running();
  const size_t offset = static_cast<const char *>(at) - r->shared;
  if (r->failed || offset >= Runner::most_shared) return;
  Moment now = r->moment();
  now.oldest = now.block;
  bool wrote;
  // An element is a unit of its own: arrays are used as the type they have.
  const int other = r->shared_seen[offset].note(now, write, wrote);
  if (other == Seen::nobody) return;
  r->unordered("element " + std::to_string(i) + " of a shared array", other, write, wrote);
}

} // namespace emulated
