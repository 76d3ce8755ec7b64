// Weights in blocks of 32 numbers, and what a block adds to a product with quantized
// activations. A segment of 256 columns is eight blocks.

struct Q8_0 { enum { CHUNKS = 17, LEAD = 1, EACH = 2 }; }; // chunks of a segment: at most, before the blocks, of a block
struct Q4_0 { enum { CHUNKS = 9, LEAD = 1, EACH = 1 }; };
struct Q4_K { enum { CHUNKS = 9, LEAD = 0, EACH = 0 }; };  // always a whole segment
struct Q6_K { enum { CHUNKS = 14, LEAD = 0, EACH = 0 }; };

// segment_chunks returns how many chunks a segment of so many blocks has.
template <class T>
DEVICE int segment_chunks(T, int blocks) { return T::EACH == 0 ? (int)T::CHUNKS : T::LEAD + blocks * T::EACH; }

// Block is a block's numbers as bytes, column after column, four to a word.
struct Block {
  unsigned q[8];
};

DEVICE Block block_of(Chunk low, Chunk high) {
  return Block{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

// Scales of a segment.
struct Scales {
  Chunk a, b;
};

DEVICE Chunk low_nibbles(Chunk c) {
  const unsigned mask = 0x0f0f0f0fu;
  return chunk_of(c.x & mask, c.y & mask, c.z & mask, c.w & mask);
}

DEVICE Chunk shifted(Chunk c, int bits) { return chunk_of(c.x >> bits, c.y >> bits, c.z >> bits, c.w >> bits); }

// scales_of and numbers_of read a segment's scales and the numbers of its block b from
// the chunks of a row. The numbers are as they are stored, but those of Q6_K, which
// are less 32.
template <class Row>
DEVICE Scales scales_of(Q8_0, const Row &row) { return Scales{chunk_at(row, 0), chunk_of(0, 0, 0, 0)}; }

template <class Row>
DEVICE Scales scales_of(Q4_0, const Row &row) { return Scales{chunk_at(row, 0), chunk_of(0, 0, 0, 0)}; }

template <class Row>
DEVICE Scales scales_of(Q4_K, const Row &row) { return Scales{chunk_at(row, 0), chunk_of(0, 0, 0, 0)}; }

template <class Row>
DEVICE Scales scales_of(Q6_K, const Row &row) { return Scales{chunk_at(row, 12), chunk_at(row, 13)}; }

template <class Row>
DEVICE Block numbers_of(Q8_0, const Row &row, int b) {
  return block_of(chunk_at(row, 1 + 2 * b), chunk_at(row, 2 + 2 * b));
}

template <class Row>
DEVICE Block numbers_of(Q4_0, const Row &row, int b) {
  const Chunk c = chunk_at(row, 1 + b);
  return block_of(low_nibbles(c), low_nibbles(shifted(c, 4)));
}

// Two blocks share two chunks, the even one having the low nibbles.
template <class Row>
DEVICE Block numbers_of(Q4_K, const Row &row, int b) {
  const Chunk low = chunk_at(row, 1 + b / 2 * 2), high = chunk_at(row, 2 + b / 2 * 2);
  const int bits = b % 2 * 4;
  return block_of(low_nibbles(shifted(low, bits)), low_nibbles(shifted(high, bits)));
}

// six_bits joins nibbles and pairs of bits to numbers of six bits, less 32: with the
// highest bit set, no byte borrows from the next.
DEVICE unsigned six_bits(unsigned nibbles, unsigned pairs) {
  const unsigned q = (nibbles & 0x0f0f0f0fu) | (pairs & 0x03030303u) << 4;
  return ((q | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
}

DEVICE Chunk six_bits(Chunk nibbles, Chunk pairs) {
  return chunk_of(six_bits(nibbles.x, pairs.x), six_bits(nibbles.y, pairs.y), six_bits(nibbles.z, pairs.z),
                  six_bits(nibbles.w, pairs.w));
}

// Of half a segment's four blocks, the first two have the low nibbles; block j has the
// j-th pair of bits of each byte.
template <class Row>
DEVICE Block numbers_of(Q6_K, const Row &row, int b) {
  const int half = b / 4, j = b % 4, nibbles = 4 * half + j % 2 * 2, pairs = 8 + 2 * half;
  const int bits = j / 2 * 4;
  return block_of(six_bits(shifted(chunk_at(row, nibbles), bits), shifted(chunk_at(row, pairs), 2 * j)),
                  six_bits(shifted(chunk_at(row, nibbles + 1), bits), shifted(chunk_at(row, pairs + 1), 2 * j)));
}

// dot adds the products of 16 numbers to s, exactly.
DEVICE int dot(const Block &w, int from, Chunk x, int s) {
  s = DP4A(w.q[from], x.x, s);
  s = DP4A(w.q[from + 1], x.y, s);
  s = DP4A(w.q[from + 2], x.z, s);
  return DP4A(w.q[from + 3], x.w, s);
}

// Activations are a block of them: int8 q, of which one stands for d, and their sum.
struct Activations {
  Chunk low, high;
  float d;
  int sum;
};

// add_block adds what block b contributes to acc, each operation rounded.
DEVICE float add_block(Q8_0, const Scales &s, int b, const Block &w, const Activations &x, float acc) {
  const int q = dot(w, 4, x.high, dot(w, 0, x.low, 0));
  const float d = half_of(s.a, b) * x.d;
  return acc + (float)q * d;
}

DEVICE float add_block(Q4_0, const Scales &s, int b, const Block &w, const Activations &x, float acc) {
  const int q = dot(w, 4, x.high, dot(w, 0, x.low, 0)) - 8 * x.sum;
  const float d = half_of(s.a, b) * x.d;
  return acc + (float)q * d;
}

// A segment's chunk of scales: d and dmin in word 0; of blocks 0 to 3 the scales in
// word 1, the minima in word 2, six bits each; of blocks 4 to 7 the low four bits of
// both in word 3, and the upper two above those six.
DEVICE float add_block(Q4_K, const Scales &s, int b, const Block &w, const Activations &x, float acc) {
  const int at = b % 4 * 8;
  unsigned scale = s.a.y >> at & 0xff, min = s.a.z >> at & 0xff;
  if (b < 4) {
    scale &= 63;
    min &= 63;
  } else {
    const unsigned both = s.a.w >> at & 0xff;
    scale = (both & 15) | (scale >> 6) << 4;
    min = both >> 4 | (min >> 6) << 4;
  }
  const int q = dot(w, 4, x.high, dot(w, 0, x.low, 0));
  const float positive = half_of(s.a, 0) * (float)scale * (float)q;
  const float negative = half_of(s.a, 1) * (float)min * (float)x.sum;
  return acc + (positive - negative) * x.d;
}

DEVICE float add_block(Q6_K, const Scales &s, int b, const Block &w, const Activations &x, float acc) {
  const int q = byte_of(s.a, 2 * b) * dot(w, 0, x.low, 0) + byte_of(s.a, 2 * b + 1) * dot(w, 4, x.high, 0);
  return acc + half_of(s.b, 0) * (float)q * x.d;
}
