#include "runner.h"

#include <string.h>

#include "machine.h"
#include "reports.h"

namespace emulated {

__thread Engine *engine;

static const Registration *&registrations() {
  static const Registration *first = nullptr;
  return first;
}

Registration::Registration(const char *name, Body body, size_t size, size_t alignment, int threads)
    : name(name), body(body), size(size), alignment(alignment), threads(threads),
      next(registrations()) {
  registrations() = this;
}

const Registration *registered(const char *name) {
  const Registration *r = registrations();
  while (r != nullptr && strcmp(r->name, name) != 0) r = r->next;
  return r;
}

void fill(void *memory, size_t bytes, uint32_t word) {
  char *p = static_cast<char *>(memory);
  size_t i = 0;
  for (; i + 4 <= bytes; i += 4) memcpy(p + i, &word, 4);
  memcpy(p + i, &word, bytes - i);
}

Runner::Runner() { memset(static_cast<Engine *>(this), 0, sizeof(Engine)); }

Runner::~Runner() {
  for (Held *h : spare) delete h;
}

bool Runner::run(const Launch &l, std::vector<Touch> &result) {
  launch = &l;
  failed = false;
  threads = l.kernel->threads;
  memset(touched, 0, sizeof touched);
  memset(nowhere, 0, sizeof nowhere);
  begin_watching();
  Engine *before = engine;
  engine = this;
  const uint64_t blocks = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2];
  bool whole = true;
  for (uint64_t n = 0; n < blocks && whole; n++) {
    const uint64_t i = l.backwards ? blocks - 1 - n : n;
    block[0] = (int)(i % l.grid[0]);
    block[1] = (int)(i / l.grid[0] % l.grid[1]);
    block[2] = (int)(i / l.grid[0] / l.grid[1]);
    whole = run_block();
  }
  engine = before;
  for (int i = 0; i < threads && !failed; i++) {
    if (!fibers.overflowed(i)) continue;
    wrong("used more than its " + std::to_string(Fibers::stack_bytes >> 10) + " KiB of stack");
  }
  release(result);
  return !failed;
}

// run_block returns false if the launch can't go on.
bool Runner::run_block() {
  arrays.clear();
  shared_used = 0;
  block_interval = ++interval;
  memset(states, fresh, threads);
  memset(turns, 0, threads);
  if (threads > most_threads || !fibers.reserve(threads)) {
    wrong("can't run a block of " + std::to_string(threads) + " threads");
    return false;
  }
  do {
    const int warps = (threads + 31) / 32;
    for (int i = 0; i < warps; i++) {
      const int w = launch->backwards ? warps - 1 - i : i;
      if (!run_warp(w * 32, w * 32 + 32 < threads ? w * 32 + 32 : threads)) return false;
    }
    if (states[0] == done && memchr(states, at_block, threads) == nullptr) return true;
  } while (meet(0, threads));
  return false;
}

// run_warp runs a warp until its lanes are done or wait for the block.
bool Runner::run_warp(int first, int behind) {
  for (;;) {
    for (int i = first; i < behind; i++) {
      const int t = launch->backwards ? first + behind - 1 - i : i;
      if (states[t] > ready) continue;
      if (states[t] == fresh) begin(t);
      thread = t;
      fibers.resume(fiber_of[t]);
    }
    bool waiting = false;
    for (int i = first; i < behind; i++) {
      waiting |= states[i] == at_exchange || states[i] == at_warp;
    }
    if (!waiting) return true;
    if (!meet(first, behind)) return false;
  }
}

// meet lets threads that wait for each other go on, if all of them are there.
bool Runner::meet(int first, int behind) {
  static const char *const names[] = {"", "", "a shuffle", "a warp's barrier", "a block's barrier"};
  for (int i = first + 1; i < behind; i++) {
    if (states[i] == states[first] && lines[i] == lines[first]) continue;
    auto at = [&](int t) {
      std::string s = "thread " + std::to_string(t);
      if (states[t] == done) return s + " has ended";
      return s + " is at " + names[states[t]] + " in line " + std::to_string(lines[t]);
    };
    thread = i;
    wrong("threads wait for each other forever: " + at(first) + ", " + at(i));
    return false;
  }
  if (states[first] == at_block) interval++;
  if (states[first] == at_warp) epochs[first / 32]++;
  memset(states + first, ready, behind - first);
  return true;
}

// begin gives a fresh thread the fiber of its own number.
void Runner::begin(int t) {
  fiber_of[t] = (short)t;
  fibers.prepare(t, enter);
}

// enter is a fiber's life in one block: a thread, and those behind it as long as nobody
// has begun them. So threads that never wait need one fiber for all of them.
void Runner::enter() {
  Runner *r = running();
  r->fibers.entered();
  for (;;) {
    r->launch->kernel->body(r->launch->params);
    r->states[r->thread] = done;
    r->lines[r->thread] = 0;
    const int t = r->next();
    if (t < 0 || r->states[t] != fresh) break;
    r->fiber_of[t] = (short)r->fibers.running();
    r->states[t] = ready;
    r->thread = t;
  }
  for (;;) r->go(r->next());
}

// next is the warp's next lane if it can run, or −1.
int Runner::next() const {
  const int t = thread + (launch->backwards ? -1 : 1);
  return t >= 0 && t < threads && t / 32 == thread / 32 && states[t] <= ready ? t : -1;
}

// go lets another thread of the warp run, or the scheduler where t is −1.
void Runner::go(int t) {
  if (t < 0) {
    fibers.switch_to(-1);
    return;
  }
  if (states[t] == fresh) begin(t);
  thread = t;
  fibers.switch_to(fiber_of[t]);
}

void Runner::wait(State state, int line) {
  states[thread] = state;
  lines[thread] = line;
  go(next());
}

void wait_block(int line) { Runner::running()->wait(Runner::at_block, line); }

void wait_warp(int line) { Runner::running()->wait(Runner::at_warp, line); }

// A lane can be one exchange ahead of another that hasn't looked at its value yet, but
// never two: hence two values.
uint32_t exchange(uint32_t v, int lane, int line) {
  Runner *r = Runner::running();
  const int thread = r->thread;
  uint32_t *values = r->values[r->turns[thread] ^= 1];
  values[thread] = v;
  r->wait(Runner::at_exchange, line);
  const int from = (thread & ~31) | (lane & 31);
  return values[from < r->threads ? from : thread];
}

void *shared_memory(const void *key, size_t bytes) {
  Runner *r = Runner::running();
  for (auto &a : r->arrays) {
    if (a.first == key) return r->shared + a.second;
  }
  const size_t offset = r->shared_used;
  if (bytes > Runner::most_shared - offset) {
    r->wrong("needs more than 48 KiB of shared memory");
    r->arrays.emplace_back(key, 0); // the launch has failed: only no harm matters
    return r->shared;
  }
  r->shared_used = (offset + bytes + 15) / 16 * 16;
  r->arrays.emplace_back(key, offset);
  fill(r->shared + offset, bytes, poison);
  return r->shared + offset;
}

void *wrong_shared(long long i, long long n, size_t size) {
  Runner *r = Runner::running();
  r->wrong("used element " + std::to_string(i) + " of a shared array of " + std::to_string(n) +
           " elements of " + std::to_string(size) + " bytes");
  memset(r->nowhere, 0, sizeof r->nowhere);
  return r->nowhere;
}

std::string Runner::place() const {
  return std::string(launch->kernel->name) + " on GPU " + std::to_string(launch->gpu) +
         ", block (" + std::to_string(block[0]) + ", " + std::to_string(block[1]) + ", " +
         std::to_string(block[2]) + "), thread " + std::to_string(thread);
}

// wrong reports the launch's first wrong.
void Runner::wrong(const std::string &what) {
  if (failed) return;
  failed = true;
  report(place() + ": " + what);
}

} // namespace emulated
