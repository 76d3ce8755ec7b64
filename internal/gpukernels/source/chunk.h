// Chunks of 16 bytes: what weights and caches are read by.

enum {
  LANES = 32,     // of a warp; rows of a panel; positions of a page
  WARPS = 8,      // of a block
  SEGMENT = 256,  // columns that a product sums before it adds to the rest
};

DEVICE Chunk chunk_of(unsigned x, unsigned y, unsigned z, unsigned w) {
  Chunk c;
  c.x = x;
  c.y = y;
  c.z = z;
  c.w = w;
  return c;
}

// word_of returns word i of a chunk. Where i is known to the compiler it costs nothing.
DEVICE unsigned word_of(Chunk c, int i) { return i == 0 ? c.x : i == 1 ? c.y : i == 2 ? c.z : c.w; }

// half_of returns the F16 number i of a chunk.
DEVICE float half_of(Chunk c, int i) { return HALF(word_of(c, i / 2) >> (i % 2 * 16) & 0xffff); }

// byte_of returns byte i of a chunk as a signed number.
DEVICE int byte_of(Chunk c, int i) { return (signed char)(word_of(c, i / 4) >> (i % 4 * 8) & 0xff); }

// The float types, as tags by which functions are chosen. FOURS is how many times four
// numbers a chunk has.
struct Float32 { enum { FOURS = 1 }; };
struct Float16 { enum { FOURS = 2 }; };
struct BFloat16 { enum { FOURS = 2 }; };

// four_of returns numbers 4i to 4i+3 of a chunk as the bits of four floats, exactly.
DEVICE Chunk four_of(Float32, Chunk c, int) { return c; }

DEVICE Chunk four_of(Float16, Chunk c, int i) {
  const unsigned low = word_of(c, 2 * i), high = word_of(c, 2 * i + 1);
  return chunk_of(FLOAT_BITS(HALF(low & 0xffff)), FLOAT_BITS(HALF(low >> 16)),
                  FLOAT_BITS(HALF(high & 0xffff)), FLOAT_BITS(HALF(high >> 16)));
}

DEVICE Chunk four_of(BFloat16, Chunk c, int i) {
  const unsigned low = word_of(c, 2 * i), high = word_of(c, 2 * i + 1);
  return chunk_of(low << 16, low & 0xffff0000, high << 16, high & 0xffff0000);
}

// pack_four puts four floats into part i of a chunk, each rounded to the type.
DEVICE void pack_four(Float32, Chunk &c, int, float a, float b, float d, float e) {
  c = chunk_of(FLOAT_BITS(a), FLOAT_BITS(b), FLOAT_BITS(d), FLOAT_BITS(e));
}

DEVICE void pack_four(Float16, Chunk &c, int i, float a, float b, float d, float e) {
  const unsigned low = TO_HALF(a) | TO_HALF(b) << 16, high = TO_HALF(d) | TO_HALF(e) << 16;
  if (i == 0) {
    c.x = low;
    c.y = high;
  } else {
    c.z = low;
    c.w = high;
  }
}

// add_four adds four products to acc, one after the other.
DEVICE float add_four(Chunk w, Chunk x, float acc) {
  acc = FMA(BITS_FLOAT(w.x), BITS_FLOAT(x.x), acc);
  acc = FMA(BITS_FLOAT(w.y), BITS_FLOAT(x.y), acc);
  acc = FMA(BITS_FLOAT(w.z), BITS_FLOAT(x.z), acc);
  acc = FMA(BITS_FLOAT(w.w), BITS_FLOAT(x.w), acc);
  return acc;
}

// Strided is every stride-th chunk of memory, global or shared, from at on: a row of a
// panel, as one lane sees it.
template <class Memory>
struct Strided {
  Memory &memory;
  long long at;
  int stride;
};

template <class Memory>
DEVICE Strided<Memory> strided(Memory &memory, long long at, int stride) {
  return Strided<Memory>{memory, at, stride};
}

template <class Memory>
DEVICE Chunk chunk_at(const Strided<Memory> &s, int i) {
  const Chunk c = s.memory[s.at + (long long)i * s.stride];
  return c;
}
