// The prelude under which the host's C++ compiler builds the kernels of
// internal/gpukernels/source: every access to device memory is checked, and a block's
// threads are fibers that switch where they wait for each other.
//
// Included before anything else (-include emulated.h).
#pragma once

#include "engine.h"

// A kernel is a plain function of the parameter block p, known by its name.
#define KERNEL(name, Params, count)                                                      \
  static void name([[maybe_unused]] const Params p);                                     \
  static const emulated::Registration name##_registration(                               \
      #name, [](const void *p) { name(*static_cast<const Params *>(p)); },               \
      sizeof(Params), alignof(Params), count);                                           \
  static void name([[maybe_unused]] const Params p)

#define DEVICE static inline

// Pointers to device memory.
#define IN(T) emulated::In<T>
#define OUT(T) emulated::Out<T>
#define AS_IN(T, p) (emulated::In<T>{(p).address})
#define AS_OUT(T, p) (emulated::Out<T>{(p).address})
#define STATUS emulated::Out<unsigned>
#define REPORT(status, wrong, op, a, b, c) emulated::report_status(status, wrong, op, a, b, c)

// Where a thread is.
#define BLOCK_X (emulated::engine->block[0])
#define BLOCK_Y (emulated::engine->block[1])
#define BLOCK_Z (emulated::engine->block[2])
#define THREAD (emulated::engine->thread)
#define THREADS (emulated::engine->threads)
#define LANE (emulated::engine->thread & 31)
#define WARP (emulated::engine->thread >> 5)

// An array of the block. SHARED_PTR(T) is the type in which a helper takes it.
#define SHARED(T, name, n)                                                               \
  static char name##_key;                                                                \
  const emulated::Shared<T> name = emulated::shared_array<T>(&name##_key, n)
#define SHARED_PTR(T) emulated::Shared<T>

// Where threads wait for each other. The line tells apart the places.
#define BARRIER() emulated::wait_block(__LINE__)
#define WARP_BARRIER() emulated::wait_warp(__LINE__)
#define SHUFFLE(v, from) emulated::shuffle(v, from, __LINE__)
#define SHUFFLE_XOR(v, mask) emulated::shuffle(v, LANE ^ (mask), __LINE__)

// Numbers. Everything is exactly what IEEE 754 says, as it is on a GPU.
#define DP4A(a, b, c) emulated::dp4a((int)(a), (int)(b), (int)(c))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define DIV(a, b) emulated::divide(a, b)
#define SQRT(a) __builtin_sqrtf(a)
#define RINT(a) __builtin_rintf(a)
#define HALF(u) emulated::half_to_float((unsigned short)(u))
#define TO_HALF(f) emulated::float_to_half(f)
#define FLOAT_BITS(f) emulated::float_bits(f)
#define BITS_FLOAT(u) emulated::bits_float(u)
#define MAXF(a, b) __builtin_fmaxf(a, b)
#define MINF(a, b) __builtin_fminf(a, b)

#define FOR_UNROLLED

struct alignas(16) Chunk {
  unsigned x, y, z, w;
};

namespace emulated {

inline float divide(float a, float b) { return a / b; }

inline unsigned float_bits(float f) {
  unsigned u;
  __builtin_memcpy(&u, &f, 4);
  return u;
}

inline float bits_float(unsigned u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}

inline int dp4a(int a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8) {
    sum += (unsigned)((signed char)((unsigned)a >> i) * (signed char)((unsigned)b >> i));
  }
  return (int)sum;
}

// A NaN becomes the one NaN that a GPU's conversion gives.
inline float half_to_float(unsigned short h) {
  const unsigned sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude > 0x7c00u) return bits_float(0x7fffffffu);
  if (magnitude == 0x7c00u) return bits_float(sign | 0x7f800000u);
  if (magnitude < 0x0400u) { // zero or subnormal: units of 2^-24
    const float f = (float)magnitude * 5.9604644775390625e-8f;
    return bits_float(sign | float_bits(f));
  }
  return bits_float(sign | ((magnitude << 13) + 0x38000000u));
}

inline unsigned float_to_half(float f) {
  const unsigned bits = float_bits(f), magnitude = bits & 0x7fffffffu;
  const unsigned sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return 0x7fffu;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u; // rounds to 2^16 or more
  unsigned value, rest, half;
  if (magnitude >= 0x38800000u) { // normal
    value = (magnitude - 0x38000000u) >> 13, rest = magnitude & 0x1fffu, half = 0x1000u;
  } else if (magnitude >= 0x33000000u) { // subnormal, or half of the smallest
    const int shift = 126 - (int)(magnitude >> 23);
    const unsigned mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    value = shift < 32 ? mantissa >> shift : 0;
    rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  } else {
    return sign;
  }
  if (rest > half || (rest == half && (value & 1))) value++;
  return sign | value;
}

// Reads and writes of device memory. Most are in an allocation that the launch has
// touched before; the others ask the table of allocations.
template <class T> inline T load(uint64_t base, long long i) {
  const uint64_t address = base + (uint64_t)i * sizeof(T);
  const Touched &t = engine->touched[slot(address)];
  const char *from;
  if (__builtin_expect(address - t.first < t.size && address % alignof(T) == 0, 1)) {
    from = reinterpret_cast<const char *>(t.origin + address);
    t.reads[(address - t.first) >> t.shift] = 1;
  } else {
    from = check_read(address, base, sizeof(T), alignof(T));
  }
  if (__builtin_expect(engine->watching, 0)) watch_device(address, sizeof(T), false);
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}

template <class T> inline void store(uint64_t base, long long i, T value) {
  const uint64_t address = base + (uint64_t)i * sizeof(T);
  const Touched &t = engine->touched[slot(address)];
  char *to;
  if (__builtin_expect(address - t.first < t.size && address % alignof(T) == 0, 1)) {
    to = reinterpret_cast<char *>(t.origin + address);
    t.writes[(address - t.first) >> t.shift] = 1;
  } else {
    to = check_write(address, base, sizeof(T), alignof(T));
  }
  if (__builtin_expect(engine->watching, 0)) watch_device(address, sizeof(T), true);
  __builtin_memcpy(to, &value, sizeof(T));
}

// Device memory that is read.
template <class T> struct In {
  uint64_t address;
  T operator[](long long i) const { return load<T>(address, i); }
  In operator+(long long n) const { return {address + (uint64_t)n * sizeof(T)}; }
};

// One element of device memory that is read and written.
template <class T> struct Element {
  uint64_t address;
  long long index;
  operator T() const { return load<T>(address, index); }
  const Element &operator=(T value) const {
    store<T>(address, index, value);
    return *this;
  }
  const Element &operator=(const Element &other) const { return *this = (T)other; }
  const Element &operator+=(T value) const { return *this = (T)((T) * this + value); }
  const Element &operator*=(T value) const { return *this = (T)((T) * this * value); }
};

// Device memory that is read and written.
template <class T> struct Out {
  uint64_t address;
  Element<T> operator[](long long i) const { return {address, i}; }
  Out operator+(long long n) const { return {address + (uint64_t)n * sizeof(T)}; }
  operator In<T>() const { return {address}; }
};

// One element of the block's memory.
template <class T> struct SharedElement {
  T *at;
  long long index;
  operator T() const {
    if (__builtin_expect(engine->watching, 0)) watch_shared(at, index, false);
    return *at;
  }
  const SharedElement &operator=(T value) const {
    if (__builtin_expect(engine->watching, 0)) watch_shared(at, index, true);
    *at = value;
    return *this;
  }
  const SharedElement &operator=(const SharedElement &other) const { return *this = (T)other; }
  const SharedElement &operator+=(T value) const { return *this = (T)((T) * this + value); }
  const SharedElement &operator*=(T value) const { return *this = (T)((T) * this * value); }
};

// Memory of the block.
template <class T> struct Shared {
  T *first;
  long long before, behind; // elements of the array on either side of first
  SharedElement<T> operator[](long long i) const {
    if (__builtin_expect(i < -before || i >= behind, 0)) {
      return {static_cast<T *>(wrong_shared(i + before, before + behind, sizeof(T))), i};
    }
    return {first + i, before + i};
  }
  Shared operator+(long long n) const { return {first + n, before + n, behind - n}; }
};

template <class T> inline Shared<T> shared_array(const void *key, long long n) {
  return {static_cast<T *>(shared_memory(key, (size_t)n * sizeof(T))), 0, n};
}

inline int shuffle(int v, int lane, int line) { return (int)exchange((unsigned)v, lane, line); }
inline unsigned shuffle(unsigned v, int lane, int line) { return exchange(v, lane, line); }
inline float shuffle(float v, int lane, int line) {
  return bits_float(exchange(float_bits(v), lane, line));
}

// The first to find something wrong says what. Kernels of a GPU run one at a time
// and their threads switch elsewhere only, so nothing comes between. On a GPU this is
// atomic: whoever comes first may.
inline void report_status(Out<unsigned> status, unsigned wrong, unsigned op, int a, int b, int c) {
  const bool watching = engine->watching;
  engine->watching = false;
  const unsigned words[5] = {wrong, op, (unsigned)a, (unsigned)b, (unsigned)c};
  if (status[0] == 0u) {
    for (int i = 0; i < 5; i++) status[i] = words[i];
  }
  engine->watching = watching;
}

} // namespace emulated
