// Streams: each does its operations in order, on a thread of its own.
#pragma once

#include <stdint.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "calls.h"
#include "races.h"
#include "runner.h"

namespace emulated {

// Recording is one record of an event: what the event stood for then.
struct Recording {
  std::shared_ptr<Context> context;
  Clock clock; // what is done once it is
  bool done = false;
};

// Operation is what a stream does next: run, or wait for a recording, or do one.
struct Operation {
  std::shared_ptr<const Work> work; // of what runs
  std::vector<Touch> touches;       // of a copy
  // run is called without the lock; of a kernel it tells what was touched.
  std::function<Result(std::vector<Touch> &)> run;
  std::shared_ptr<Recording> awaits, records;
};

// Stream is a stream of a context. The machine's lock guards it.
struct Stream {
  uint64_t handle;
  std::shared_ptr<Context> context;
  int index; // in clocks
  Clock clock;
  std::deque<Operation> queue; // the first one runs
  bool closing = false, ended = false;
  std::condition_variable wake;
  std::thread thread;
};

// All of these are for whoever holds the machine's lock.

std::shared_ptr<Stream> find_stream(uint64_t handle);

// enqueue adds an operation; name is for reports.
void enqueue(Stream &s, const std::string &name, Operation op);

// drain waits until all that is in the stream now is done, and tells the host's clock.
// It returns the context's error.
Result drain(Call &c, const std::shared_ptr<Stream> &s);

// quiesce waits until nothing runs any more on GPUs whose contexts have failed. The host
// can't wait for that itself, since its waits fail; what it frees must not be used.
void quiesce(Call &c);

// close_streams ends all threads of a context. It reports streams that nobody
// destroyed, unless the context has failed.
void close_streams(Call &c, Context &context);

// settled says that the work is done before anything that is or will be enqueued.
bool settled(const Work &work);

// pending returns work in a stream that touches the bytes, or nullptr. Where writing is
// set only writes count.
std::shared_ptr<const Work> pending(const Memory &memory, Interval bytes, bool writing);

} // namespace emulated
