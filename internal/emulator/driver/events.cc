#include "events.h"

#include <unordered_map>

#include "streams.h"

namespace emulated {

struct Event {
  std::shared_ptr<Context> context;
  std::shared_ptr<Recording> latest; // nullptr if it was never recorded
};

static std::unordered_map<uint64_t, Event> &events() {
  static auto *e = new std::unordered_map<uint64_t, Event>;
  return *e;
}

static Event *find(uint64_t handle) {
  const auto found = events().find(handle);
  return found == events().end() ? nullptr : &found->second;
}

int forget_events(const Context &context) {
  int n = 0;
  for (auto e = events().begin(); e != events().end();) {
    if (e->second.context.get() != &context) {
      ++e;
      continue;
    }
    e = events().erase(e);
    n++;
  }
  return n;
}

EXPORT int cuEventCreate(uint64_t *event, unsigned flags) {
  return call("cuEventCreate", context, [&](Call &c) {
    if (event == nullptr || flags > 3) return invalid_value;
    *event = new_handle();
    events()[*event] = {c.context, nullptr};
    return success;
  });
}

EXPORT int cuEventDestroy_v2(uint64_t event) {
  return call("cuEventDestroy", cleaning,
              [&](Call &) { return events().erase(event) == 0 ? invalid_handle : success; });
}

EXPORT int cuEventRecord(uint64_t event, uint64_t stream) {
  return call("cuEventRecord", context, [&](Call &) {
    Event *e = find(event);
    const auto s = find_stream(stream);
    if (e == nullptr || s == nullptr || e->context != s->context) return invalid_handle;
    if (s->context->error != success) return s->context->error;
    e->latest = std::make_shared<Recording>();
    e->latest->context = s->context;
    enqueue(*s, "cuEventRecord", {nullptr, {}, nullptr, nullptr, e->latest});
    return success;
  });
}

EXPORT int cuStreamWaitEvent(uint64_t stream, uint64_t event, unsigned flags) {
  return call("cuStreamWaitEvent", context, [&](Call &) {
    Event *e = find(event);
    const auto s = find_stream(stream);
    if (e == nullptr || s == nullptr) return invalid_handle;
    if (flags > 1) return invalid_value;
    if (s->context->error != success) return s->context->error;
    if (e->latest != nullptr) {
      enqueue(*s, "cuStreamWaitEvent", {nullptr, {}, nullptr, e->latest, nullptr});
    }
    return success;
  });
}

// known_done tells the host's clock that a recording is done.
static Result known_done(const Recording &r) {
  join(machine().host, r.clock);
  return r.context->error;
}

EXPORT int cuEventQuery(uint64_t event) {
  return call("cuEventQuery", context, [&](Call &) {
    const Event *e = find(event);
    if (e == nullptr) return invalid_handle;
    if (e->latest == nullptr) return e->context->error;
    return e->latest->done ? known_done(*e->latest) : not_ready;
  });
}

EXPORT int cuEventSynchronize(uint64_t event) {
  return call("cuEventSynchronize", context, [&](Call &c) {
    const Event *e = find(event);
    if (e == nullptr) return invalid_handle;
    const auto latest = e->latest; // the event may be destroyed or recorded meanwhile
    if (latest == nullptr) return e->context->error;
    machine().progress.wait(c.lock, [&] { return latest->done; });
    return known_done(*latest);
  });
}

} // namespace emulated
