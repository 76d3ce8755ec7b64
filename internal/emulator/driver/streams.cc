#include "streams.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <unordered_map>

#include "reports.h"

namespace emulated {

struct Table {
  std::unordered_map<uint64_t, std::shared_ptr<Stream>> streams;
  std::vector<uint32_t> counts; // operations by index
  std::vector<int> free_indices;
};

static Table &table() {
  static Table *t = new Table;
  return *t;
}

std::shared_ptr<Stream> find_stream(uint64_t handle) {
  const auto found = table().streams.find(handle);
  return found == table().streams.end() ? nullptr : found->second;
}

void enqueue(Stream &s, const std::string &name, Operation op) {
  join(s.clock, machine().host);
  if (op.run) {
    if (s.clock.size() <= (size_t)s.index) s.clock.resize(s.index + 1, 0);
    const uint32_t count = s.clock[s.index] = ++table().counts[s.index];
    op.work = std::make_shared<Work>(Work{s.index, count, s.clock, name, s.context});
  }
  if (op.awaits != nullptr) join(s.clock, op.awaits->clock);
  if (op.records != nullptr) op.records->clock = s.clock;
  s.queue.push_back(std::move(op));
  s.wake.notify_one();
}

// note looks for races of what was done. On a GPU that has failed nobody can order
// anything any more.
static void note(const Operation &op) {
  if (op.work->context->error != success) return;
  for (const Touch &t : op.touches) {
    if (t.memory->freed) continue;
    for (const bool write : {false, true}) {
      const Intervals &bytes = write ? t.writes : t.reads;
      uint64_t offset;
      if (bytes.empty()) continue;
      const auto other = t.memory->history.note({op.work, write, bytes}, offset);
      if (other == nullptr || other->context->error != success) continue;
      report("race: " + op.work->name + " and " + other->name + " both use " +
             t.memory->where(t.memory->address + offset) +
             ", at least one of them writes it, and no event or wait says which comes first");
      return;
    }
  }
}

// perform does one operation.
static void perform(Lock &lock, Stream &s, Operation &op) {
  if (op.awaits != nullptr) {
    machine().progress.wait(
        lock, [&] { return op.awaits->done || s.context->error != success; });
  }
  if (op.run && s.context->error == success) {
    bool freed = false;
    for (const Touch &t : op.touches) {
      if (!t.memory->freed || freed) continue;
      freed = true;
      report(op.work->name + " uses freed memory: " + t.memory->where(t.memory->address));
    }
    if (freed) {
      fail(*s.context, illegal_address);
    } else {
      std::vector<Touch> touches;
      lock.unlock();
      Result r;
      try {
        r = op.run(touches);
      } catch (const std::bad_alloc &) {
        r = out_of_memory;
      }
      lock.lock();
      fail(*s.context, r == out_of_memory ? launch_failed : r);
      if (!touches.empty()) op.touches = std::move(touches);
      note(op);
    }
  }
  if (op.records != nullptr) op.records->done = true;
}

static void live(std::shared_ptr<Stream> s) {
  Lock lock;
  for (;;) {
    s->wake.wait(lock, [&] { return s->closing || !s->queue.empty(); });
    if (s->queue.empty()) break;
    Operation &op = s->queue.front(); // stays where it is while others are added
    perform(lock, *s, op);
    Operation finished = std::move(op);
    s->queue.pop_front();
    machine().progress.notify_all();
  }
  s->ended = true;
  table().free_indices.push_back(s->index);
  machine().progress.notify_all();
}

// start makes the stream's thread. A signal is for the program's threads, not for it.
static bool start(const std::shared_ptr<Stream> &s) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    s->thread = std::thread(live, s);
  } catch (const std::system_error &) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Result drain(Call &c, const std::shared_ptr<Stream> &s) {
  auto mark = std::make_shared<Recording>();
  enqueue(*s, c.name, {nullptr, {}, nullptr, nullptr, mark});
  machine().progress.wait(c.lock, [&] { return mark->done; });
  join(machine().host, mark->clock);
  return s->context->error;
}

void quiesce(Call &c) {
  auto over = [](const Gpu &g) {
    return std::all_of(g.context->streams.begin(), g.context->streams.end(),
                       [](const std::shared_ptr<Stream> &s) { return s->queue.empty(); });
  };
  for (const auto &g : machine().gpus) {
    auto failed = [&] { return g->context != nullptr && g->context->error != success; };
    machine().progress.wait(c.lock, [&] { return !failed() || over(*g); });
    if (!failed()) continue;
    for (const auto &s : g->context->streams) join(machine().host, s->clock);
  }
}

// reap joins threads that have ended.
static void reap(Context &context) {
  for (size_t i = 0; i < context.streams.size();) {
    if (!context.streams[i]->ended) {
      i++;
      continue;
    }
    context.streams[i]->thread.join();
    context.streams.erase(context.streams.begin() + i);
  }
}

void close_streams(Call &c, Context &context) {
  for (const auto &s : context.streams) {
    if (s->closing) continue;
    if (context.error == success) {
      report("a stream of GPU " + std::to_string(context.gpu->number) +
             " was left when its context was released for the last time");
    }
    s->closing = true;
    s->wake.notify_one();
    table().streams.erase(s->handle);
  }
  machine().progress.wait(c.lock, [&] {
    return std::all_of(context.streams.begin(), context.streams.end(),
                       [](const std::shared_ptr<Stream> &s) { return s->ended; });
  });
  reap(context);
}

// each calls f for every stream with a thread until it returns true.
template <class F> static bool each(F f) {
  for (const auto &g : machine().gpus) {
    if (g->context == nullptr) continue;
    for (const auto &s : g->context->streams) {
      if (f(*s)) return true;
    }
  }
  return false;
}

bool settled(const Work &work) {
  if (!known(machine().host, work.stream, work.count)) return false;
  return !each([&](const Stream &s) {
    for (const Operation &op : s.queue) {
      if (op.work != nullptr) return !known(op.work->clock, work.stream, work.count);
    }
    return false;
  });
}

std::shared_ptr<const Work> pending(const Memory &memory, Interval bytes, bool writing) {
  std::shared_ptr<const Work> found;
  auto meets = [&](const Intervals &is) {
    return std::any_of(is.begin(), is.end(), [&](const Interval &i) {
      return i.first <= bytes.last && bytes.first <= i.last;
    });
  };
  each([&](const Stream &s) {
    for (const Operation &op : s.queue) {
      for (const Touch &t : op.touches) {
        if (t.memory != memory || !(meets(t.writes) || (!writing && meets(t.reads)))) continue;
        found = op.work;
        return true;
      }
    }
    return false;
  });
  return found;
}

EXPORT int cuStreamCreate(uint64_t *stream, unsigned flags) {
  return call("cuStreamCreate", context, [&](Call &c) {
    if (stream == nullptr || flags > 1) return invalid_value;
    reap(*c.context);
    auto s = std::make_shared<Stream>();
    s->handle = new_handle();
    s->context = c.context;
    if (table().free_indices.empty()) {
      s->index = (int)table().counts.size();
      table().counts.push_back(0);
    } else {
      s->index = table().free_indices.back();
      table().free_indices.pop_back();
    }
    if (!start(s)) {
      table().free_indices.push_back(s->index);
      return operating_system;
    }
    c.context->streams.push_back(s);
    table().streams[s->handle] = s;
    *stream = s->handle;
    return success;
  });
}

EXPORT int cuStreamDestroy_v2(uint64_t stream) {
  return call("cuStreamDestroy", cleaning, [&](Call &) {
    const auto s = find_stream(stream);
    if (s == nullptr) return invalid_handle;
    s->closing = true;
    s->wake.notify_one();
    table().streams.erase(stream);
    return success;
  });
}

EXPORT int cuStreamSynchronize(uint64_t stream) {
  return call("cuStreamSynchronize", context, [&](Call &c) {
    const auto s = find_stream(stream);
    return s == nullptr ? invalid_handle : drain(c, s);
  });
}

} // namespace emulated
