// Key/value pages, and rounding keys and values into them.

// A cache of Q8_0: 32 numbers share a scale. Caches of floats go by Float32, Float16.
struct Int8 {};

// chunks_of returns the chunks of a head's keys on a page, as many as its values'.
template <class T>
DEVICE int row_chunks(T, int dim) { return (dim + 4 * T::FOURS - 1) / (4 * T::FOURS); }

template <class T>
DEVICE long long chunks_of(T type, int dim) { return (long long)LANES * row_chunks(type, dim); }

DEVICE long long chunks_of(Int8, int dim) { return 2 * (long long)dim + dim / 8; }

// store_head rounds a head's key and value of dim floats, the i-th k[from+i] and
// v[from+i], to slot of the page whose keys are at chunk keys. A thread has every
// 256th chunk.
template <class T>
DEVICE void store_head(T type, const StoreKVParams &p, long long from, long long keys, int slot) {
  const int chunks = row_chunks(type, p.dim);
  const long long values = keys + chunks_of(type, p.dim);
  for (int i = THREAD; i < 2 * chunks; i += 256) {
    const bool key = i < chunks;
    const int c = key ? i : i - chunks;
    float x[4 * T::FOURS];
    FOR_UNROLLED
    for (int e = 0; e < 4 * T::FOURS; e++) {
      const int d = c * 4 * T::FOURS + e;
      x[e] = 0;
      if (d < p.dim) x[e] = key ? p.k[from + d] : p.v[from + d];
    }
    Chunk packed;
    FOR_UNROLLED
    for (int f = 0; f < T::FOURS; f++) pack_four(type, packed, f, x[4 * f], x[4 * f + 1], x[4 * f + 2], x[4 * f + 3]);
    if (key) {
      p.cache[keys + (long long)c * LANES + slot] = packed;
    } else {
      p.cache[values + (long long)slot * chunks + c] = packed;
    }
  }
}

// A warp rounds 32 numbers: d = max|x|/127 in F16, then q = x·(1/d) by the rounded d,
// half to even, within ±127. An infinity or a NaN makes d NaN, so that it shows.
DEVICE void store_head(Int8, const StoreKVParams &p, long long from, long long keys, int slot) {
  const int blocks = p.dim / 32;
  const long long values = keys + chunks_of(Int8(), p.dim);
  for (int i = WARP; i < 2 * blocks; i += WARPS) {
    const bool key = i < blocks;
    const int block = key ? i : i - blocks;
    const long long at = from + block * 32 + LANE;
    const float v = key ? p.k[at] : p.v[at];
    unsigned top = FLOAT_BITS(v) & 0x7fffffffu;
    FOR_UNROLLED
    for (int half = 16; half > 0; half /= 2) {
      const unsigned other = SHUFFLE_XOR(top, half);
      if (other > top) top = other;
    }
    const bool finite = top < 0x7f800000u;
    const unsigned scale = finite ? TO_HALF(DIV(BITS_FLOAT(top), 127.0f)) : 0x7e00;
    const float inverse = DIV(1.0f, HALF(scale));
    int q = 0;
    if (finite && scale != 0) q = (int)MAXF(-127.0f, MINF(127.0f, RINT(v * inverse)));

    const long long first = key ? keys : values;
    const int scale_at = key ? block * LANES + slot : slot * blocks + block;
    const long long q_at = key ? (long long)((2 * block + LANE / 16) * LANES + slot) * 16 + LANE % 16
                               : (long long)slot * p.dim + block * 32 + LANE;
    AS_OUT(signed char, p.cache)[(first + p.dim / 8) * 16 + q_at] = (signed char)q;
    if (LANE == 0) AS_OUT(unsigned short, p.cache)[first * 8 + scale_at] = (unsigned short)scale;
  }
}

template <class T>
DEVICE void store_kv(T type, const StoreKVParams &p) {
  const int row = BLOCK_X, head = BLOCK_Y;
  if (!header_holds(p.header, p.status, STORE_KV, p.rows, p.outputs, p.words)) return;
  const int position = position_of(p.header, p.status, STORE_KV, p.rows, row);
  if (position < 0) return;
  const int page = page_of(p, STORE_KV, row, position / LANES, THREAD == 0);
  if (page < 0) return;
  const long long from = ((long long)row * p.heads + head) * p.dim;
  const long long keys = ((long long)page * p.heads + head) * 2 * chunks_of(type, p.dim);
  store_head(type, p, from, keys, position % LANES);
}

// leat_store_kv: block (r, h) rounds head h of row r of k and v to the cache's type and
// puts them at the row's position. A row that has no place there is skipped.
KERNEL(leat_store_kv_f32, StoreKVParams, 256) { store_kv(Float32(), p); }
KERNEL(leat_store_kv_f16, StoreKVParams, 256) { store_kv(Float16(), p); }
KERNEL(leat_store_kv_q8_0, StoreKVParams, 256) { store_kv(Int8(), p); }
