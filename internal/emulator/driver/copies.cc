// Copies and fills.

#include <string.h>

#include "memory.h"
#include "reports.h"
#include "streams.h"

namespace emulated {

// Piece is a checked range of an allocation.
struct Piece {
  Memory memory;
  std::shared_ptr<char> bytes;
  uint64_t offset = 0, size = 0;
  char *host() const { return bytes.get() + offset; }
  Interval interval() const { return {offset, offset + size - 1}; }
  Touch read() const { return {memory, {interval()}, {}}; }
  Touch written() const { return {memory, {}, {interval()}}; }
};

// device_piece checks a range of device memory; where it is wrong it reports.
static bool device_piece(const Call &c, uint64_t address, uint64_t size, Piece &p) {
  p.memory = device_memory(address);
  p.size = size;
  const std::string what = std::string(c.name) + " of " + std::to_string(size) + " bytes ";
  if (p.memory == nullptr) {
    report(what + "at " + address_name(address) + ", which was never allocated");
    return false;
  }
  if (p.memory->freed) {
    report(what + "in freed memory: " + p.memory->where(address));
    return false;
  }
  p.offset = address - p.memory->address;
  if (p.offset > p.memory->size || size > p.memory->size - p.offset) {
    report(what + "outside of an allocation: " + p.memory->where(address));
    return false;
  }
  p.bytes = p.memory->bytes;
  return true;
}

// host_piece says whether a range of host memory is pinned for the context.
static bool host_piece(const Call &c, const void *host, uint64_t size, Piece &p) {
  p.memory = pinned_memory(host);
  if (p.memory == nullptr) return false;
  if (!p.memory->portable && p.memory->context != c.context->handle) return false;
  p.size = size;
  p.offset = reinterpret_cast<uint64_t>(host) - p.memory->address;
  p.bytes = p.memory->bytes;
  if (size <= p.memory->size - p.offset) return true;
  report(std::string(c.name) + " of " + std::to_string(size) +
         " bytes past the end of pinned memory: " + p.memory->where(reinterpret_cast<uint64_t>(host)));
  return false;
}

static std::string in_words(const Call &c, uint64_t size, const Stream &s) {
  return std::string(c.name) + " of " + std::to_string(size) + " bytes in stream " +
         std::to_string(s.index) + " of GPU " + std::to_string(s.context->gpu->number);
}

static uint64_t checksum(const char *bytes, uint64_t size) {
  uint64_t sum = size, word;
  for (; size >= 8; size -= 8, bytes += 8) {
    memcpy(&word, bytes, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
    sum ^= sum >> 29;
  }
  word = 0;
  memcpy(&word, bytes, size);
  return (sum ^ word) * 0x9e3779b97f4a7c15ull;
}

// stream_for finds the stream of a copy. Like a driver it takes streams of any context.
static Result stream_for(uint64_t handle, std::shared_ptr<Stream> &s) {
  s = find_stream(handle);
  if (s == nullptr) return invalid_handle;
  return s->context->error;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, uint64_t stream) {
  return call("cuMemcpyHtoDAsync", context, [&](Call &c) {
    std::shared_ptr<Stream> s;
    const Result r = stream_for(stream, s);
    if (r != success || n == 0) return r;
    Piece d, h;
    if (from == nullptr || !device_piece(c, to, n, d)) return invalid_value;
    const std::string name = in_words(c, n, *s);
    if (!host_piece(c, from, n, h)) { // copied now, as a driver stages it
      const auto staged = std::make_shared<std::vector<char>>(
          static_cast<const char *>(from), static_cast<const char *>(from) + n);
      enqueue(*s, name, {nullptr, {d.written()}, [=](std::vector<Touch> &) {
                memcpy(d.host(), staged->data(), n);
                return success;
              }, nullptr, nullptr});
      return success;
    }
    // What a copy from a GPU is about to write may change; nothing else may.
    const bool whole = pending(h.memory, h.interval(), true) == nullptr;
    const uint64_t sum = whole ? checksum(h.host(), n) : 0;
    enqueue(*s, name, {nullptr, {d.written(), h.read()}, [=](std::vector<Touch> &) {
              memcpy(d.host(), h.host(), n);
              if (whole && checksum(d.host(), n) != sum) {
                report(name + ": the host changed the pinned source (" + h.memory->name() +
                       ", from byte " + std::to_string(h.offset) + ") before the copy was done");
              }
              return success;
            }, nullptr, nullptr});
    return success;
  });
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, uint64_t stream) {
  return call("cuMemcpyDtoHAsync", context, [&](Call &c) {
    std::shared_ptr<Stream> s;
    const Result r = stream_for(stream, s);
    if (r != success || n == 0) return r;
    Piece d, h;
    if (to == nullptr || !device_piece(c, from, n, d)) return invalid_value;
    const std::string name = in_words(c, n, *s);
    if (!host_piece(c, to, n, h)) { // the call lasts until the copy is done
      enqueue(*s, name, {nullptr, {d.read()}, [=](std::vector<Touch> &) {
                memcpy(to, d.host(), n);
                return success;
              }, nullptr, nullptr});
      return drain(c, s);
    }
    // Who reads too early finds poison, but what is still needed must stay.
    if (pending(h.memory, h.interval(), false) == nullptr) fill(h.host(), n, poison);
    enqueue(*s, name, {nullptr, {d.read(), h.written()}, [=](std::vector<Touch> &) {
              memcpy(h.host(), d.host(), n);
              return success;
            }, nullptr, nullptr});
    return success;
  });
}

// copy is between GPUs or within one.
static Result copy(Call &c, const Piece &to, const Piece &from, Stream &s) {
  const uint64_t n = to.size;
  const bool direct = to.memory->gpu != from.memory->gpu && s.context->peers != 0;
  const bool lost = direct && machine().lossy;
  enqueue(s, in_words(c, n, s), {nullptr, {to.written(), from.read()}, [=](std::vector<Touch> &) {
            if (!lost) memmove(to.host(), from.host(), n);
            return success;
          }, nullptr, nullptr});
  return success;
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, uint64_t stream) {
  return call("cuMemcpyDtoDAsync", context, [&](Call &c) {
    std::shared_ptr<Stream> s;
    const Result r = stream_for(stream, s);
    if (r != success || n == 0) return r;
    Piece t, f;
    if (!device_piece(c, to, n, t) || !device_piece(c, from, n, f)) return invalid_value;
    const uint32_t reachable = s->context->peers | 1u << s->context->gpu->number;
    if (!(reachable >> t.memory->gpu & reachable >> f.memory->gpu & 1)) {
      report(in_words(c, n, *s) + " uses another GPU's memory without peer access");
      return invalid_value;
    }
    return copy(c, t, f, *s);
  });
}

EXPORT int cuMemcpyPeerAsync(uint64_t to, uint64_t to_context, uint64_t from,
                             uint64_t from_context, size_t n, uint64_t stream) {
  return call("cuMemcpyPeerAsync", context, [&](Call &c) {
    std::shared_ptr<Stream> s;
    const Result r = stream_for(stream, s);
    const auto a = find_context(to_context), b = find_context(from_context);
    if (a == nullptr || b == nullptr) return invalid_context;
    if (r != success || n == 0) return r;
    if (a->error != success) return a->error;
    if (b->error != success) return b->error;
    Piece t, f;
    if (!device_piece(c, to, n, t) || !device_piece(c, from, n, f)) return invalid_value;
    if (t.memory->gpu != a->gpu->number || f.memory->gpu != b->gpu->number) {
      report(in_words(c, n, *s) + ": memory isn't of the GPU whose context is given");
      return invalid_value;
    }
    return copy(c, t, f, *s);
  });
}

// set fills n elements of so many bytes.
static Result set(Call &c, uint64_t to, uint64_t n, uint64_t size, uint32_t word,
                  uint64_t stream) {
  std::shared_ptr<Stream> s;
  const Result r = stream_for(stream, s);
  if (r != success || n == 0) return r;
  if (s->context != c.context) return invalid_handle;
  Piece d;
  if (to % size != 0 || n > UINT64_MAX / size || !device_piece(c, to, n * size, d)) {
    return invalid_value;
  }
  enqueue(*s, in_words(c, n * size, *s), {nullptr, {d.written()}, [=](std::vector<Touch> &) {
            fill(d.host(), d.size, word);
            return success;
          }, nullptr, nullptr});
  return success;
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, uint64_t stream) {
  return call("cuMemsetD8Async", context,
              [&](Call &c) { return set(c, to, n, 1, value * 0x01010101u, stream); });
}

EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t n, uint64_t stream) {
  return call("cuMemsetD32Async", context,
              [&](Call &c) { return set(c, to, n, 4, value, stream); });
}

} // namespace emulated
