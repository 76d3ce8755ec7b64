// Attention with an online softmax (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018) over pages of 32 positions.

enum { ELEMENTS = 256 }; // of a head's values that a block weighs, 8 a lane

// score returns the product of a query, the dim floats from q[from] on, and the key of
// position LANE of a page, elements in order from +0.
template <class T>
DEVICE float score(T type, IN(Chunk) cache, long long keys, int dim, IN(float) q, long long from) {
  const int per = 4 * T::FOURS;
  float acc = 0;
  int c = 0;
  for (; (c + 1) * per <= dim; c++) {
    const Chunk chunk = cache[keys + (long long)c * LANES + LANE];
    FOR_UNROLLED
    for (int f = 0; f < T::FOURS; f++) {
      const Chunk four = four_of(type, chunk, f);
      FOR_UNROLLED
      for (int i = 0; i < 4; i++) acc = FMA(BITS_FLOAT(word_of(four, i)), q[from + c * per + 4 * f + i], acc);
    }
  }
  if (c * per < dim) {
    const Chunk chunk = cache[keys + (long long)c * LANES + LANE];
    FOR_UNROLLED
    for (int f = 0; f < T::FOURS; f++) {
      const Chunk four = four_of(type, chunk, f);
      FOR_UNROLLED
      for (int i = 0; i < 4; i++) {
        const int d = c * per + 4 * f + i;
        if (d < dim) acc = FMA(BITS_FLOAT(word_of(four, i)), q[from + d], acc);
      }
    }
  }
  return acc;
}

DEVICE float score(Int8, IN(Chunk) cache, long long keys, int dim, IN(float) q, long long from) {
  float acc = 0;
  for (int block = 0; block < dim / 32; block++) {
    const float d = HALF(AS_IN(unsigned short, cache)[keys * 8 + block * LANES + LANE]);
    FOR_UNROLLED
    for (int half = 0; half < 2; half++) {
      const Chunk chunk = cache[keys + dim / 8 + (long long)(2 * block + half) * LANES + LANE];
      FOR_UNROLLED
      for (int i = 0; i < 16; i++) {
        acc = FMA(d * (float)byte_of(chunk, i), q[from + block * 32 + half * 16 + i], acc);
      }
    }
  }
  return acc;
}

// element returns which of the block's value elements a lane's i-th is. A lane reads
// one chunk of F16, two of F32, half a chunk of Q8_0.
DEVICE int element(Float32, int i) { return i / 4 * 128 + 4 * LANE + i % 4; }
DEVICE int element(Float16, int i) { return 8 * LANE + i; }
DEVICE int element(Int8, int i) { return 8 * LANE + i; }

// read_values reads a lane's 8 elements, from element first of the head on, of the
// value of position t of a page. Behind the head they are 0.
template <class T>
DEVICE void read_values(T type, IN(Chunk) cache, long long values, int dim, int first, int t, float *v) {
  const int chunks = row_chunks(type, dim);
  FOR_UNROLLED
  for (int i = 0; i < 8; i += 4 * T::FOURS) {
    const int c = (first + element(type, i)) / (4 * T::FOURS);
    Chunk chunk = chunk_of(0, 0, 0, 0);
    if (c < chunks) chunk = cache[values + (long long)t * chunks + c];
    FOR_UNROLLED
    for (int f = 0; f < T::FOURS; f++) {
      const Chunk four = four_of(type, chunk, f);
      FOR_UNROLLED
      for (int e = 0; e < 4; e++) v[i + 4 * f + e] = BITS_FLOAT(word_of(four, e));
    }
  }
}

DEVICE void read_values(Int8 type, IN(Chunk) cache, long long values, int dim, int first, int t, float *v) {
  const int e = first + element(type, 0);
  float d = 0;
  unsigned low = 0, high = 0;
  if (e < dim) {
    d = HALF(AS_IN(unsigned short, cache)[values * 8 + t * (dim / 32) + e / 32]);
    const long long at = ((values + dim / 8) * 16 + (long long)t * dim + e) / 4;
    low = AS_IN(unsigned, cache)[at];
    high = AS_IN(unsigned, cache)[at + 1];
  }
  const Chunk both = chunk_of(low, high, 0, 0);
  FOR_UNROLLED
  for (int i = 0; i < 8; i++) v[i] = d * (float)byte_of(both, i);
}

// weigh adds the value of position t, weighted by lane t's p, to the lane's sums.
template <class T>
DEVICE void weigh(T type, IN(Chunk) cache, long long values, int dim, int first, int t, float p, float *sum) {
  float v[8];
  read_values(type, cache, values, dim, first, t, v);
  const float weight = SHUFFLE(p, t);
  FOR_UNROLLED
  for (int i = 0; i < 8; i++) sum[i] = FMA(weight, v[i], sum[i]);
}

// Plain attention only scales its scores, Various has all that AttentionParams names.
// They are kernels of their own, so that the one doesn't pay for the other.
struct Plain { enum { VARIOUS = 0 }; };
struct Various { enum { VARIOUS = 1 }; };

// first_seen returns the first position that one at position attends to.
DEVICE int first_seen(const AttentionParams &p, int position) {
  return p.window > 0 && position >= p.window ? position - p.window + 1 : 0;
}

// adjusted returns a scaled score, bounded and less what its distance costs.
DEVICE float adjusted(const AttentionParams &p, float score, int head, int distance) {
  if (p.cap > 0) score = soft_cap(score, p.cap);
  if (p.sloped) score = score - p.slopes[head] * (float)distance;
  return score;
}

// attention computes value elements 256z to 256z+255 of query head h of row r, in
// block (r, h, z).
//
// Page b is warp b mod 8's, and a warp takes its pages in order. Of a page, lane t has
// the score of position t; then the warp goes through the positions in order, a lane
// having 8 elements. With m the largest score so far, l the sum of weights and acc
// that of weighted values,
//
//	m' = max(m, s…)   c = e^(m-m')   p = e^(s-m')
//	l = l·c + Σp   acc = acc·c + Σp·v   m = m'
//
// Σp is taken by halves, Σp·v by fused operations in order from +0. Positions behind
// the row's own weigh 0, whatever lies there. In the end thread i merges element i of
// the warps that had a page, in order. So a row's sums depend on nothing but its
// position, and not on the batch or on how the prompt was cut.
//
// Positions before a window are like those behind the row's own. A sink is merged
// before the first warp, as a score of weight 1 that has no value.
//
// A score of NaN or +∞ makes the row NaN, and so do scores that are all -∞; one of -∞
// among others weighs 0.
template <class T, class Kind>
DEVICE void attention(T type, Kind, const AttentionParams &p) {
  SHARED(float, most, WARPS);
  SHARED(float, weights, WARPS);
  SHARED(int, failed, WARPS);
  SHARED(float, weighted, WARPS * ELEMENTS);
  const int row = BLOCK_X, head = BLOCK_Y, first = BLOCK_Z * ELEMENTS;
  const long long at = ((long long)row * p.heads + head) * p.dim;
  const long long size = chunks_of(type, p.dim);
  const float infinity = BITS_FLOAT(0x7f800000u);

  int position = -1;
  if (header_holds(p.header, p.status, ATTENTION, p.rows, p.outputs, p.words)) {
    position = position_of(p.header, p.status, ATTENTION, p.rows, row);
  }
  const int pages = position < 0 ? 0 : position / LANES + 1;
  const int seen = Kind::VARIOUS ? first_seen(p, position) : 0;

  float m = -infinity, l = 0;
  float acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  bool bad = position < 0;
  int b = WARP;
  if (Kind::VARIOUS) b += (seen / LANES - WARP + WARPS - 1) / WARPS * WARPS; // this warp's first that is seen
  for (; b < pages; b += WARPS) {
    const int page = page_of(p, ATTENTION, row, b, LANE == 0);
    if (page < 0) {
      bad = true;
      break;
    }
    const long long keys = ((long long)page * (p.heads / p.group) + head / p.group) * 2 * size;
    const int left = position - b * LANES;
    const int count = left < LANES ? left + 1 : LANES;

    const int begin = Kind::VARIOUS && seen > b * LANES ? seen - b * LANES : 0;
    float found = score(type, p.cache, keys, p.dim, p.q, at) * p.scale;
    if (Kind::VARIOUS) found = adjusted(p, found, head, left - LANE);
    const bool there = LANE >= begin && LANE < count;
    const float s = there ? found : -infinity;
    const float top = MAXF(m, warp_max(s));
    const float from = top == -infinity ? 0 : top; // weights of 0, not NaN: other pages may have more
    const float c = exponential(m - from);
    const float weight = there ? exponential(s - from) : 0;
    l = l * c + warp_sum(weight);
    m = top;

    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int t = begin;
    for (; t + 4 <= count; t += 4) {
      FOR_UNROLLED
      for (int i = 0; i < 4; i++) weigh(type, p.cache, keys + size, p.dim, first, t + i, weight, sum);
    }
    for (; t < count; t++) weigh(type, p.cache, keys + size, p.dim, first, t, weight, sum);
    FOR_UNROLLED
    for (int i = 0; i < 8; i++) acc[i] = acc[i] * c + sum[i];
  }

  if (LANE == 0) {
    most[WARP] = m;
    weights[WARP] = l;
    failed[WARP] = bad;
  }
  FOR_UNROLLED
  for (int i = 0; i < 8; i++) weighted[WARP * ELEMENTS + element(type, i)] = acc[i];
  BARRIER();
  if (THREAD >= p.dim - first) return;

  // Of a window, any warp may have had no page: then its sums are zeros.
  const int warps = pages < WARPS && !Kind::VARIOUS ? pages : WARPS;
  float top = -infinity, sum = 0, all = 0;
  if (Kind::VARIOUS && p.sunk) top = p.sinks[head];
  const float sink = top;
  for (int w = 0; w < warps; w++) {
    const float other = most[w];
    top = MAXF(top, other);
  }
  for (int w = 0; w < WARPS; w++) {
    const int other = failed[w];
    if (other) bad = true;
  }
  if (Kind::VARIOUS && p.sunk) sum = exponential(sink - top);
  for (int w = 0; w < warps; w++) {
    const float other = most[w], part = weights[w], v = weighted[w * ELEMENTS + THREAD];
    const float f = exponential(other - top);
    sum = sum + part * f;
    all = all + v * f;
  }
  p.dst[at + first + THREAD] = bad ? 0.0f : DIV(all, sum);
}

// leat_attention: softmax(q·Kᵀ·scale)·V for a row and query head. A row whose pages
// the cache doesn't have becomes zeros.
KERNEL(leat_attention_f32, AttentionParams, 256) { attention(Float32(), Plain(), p); }
KERNEL(leat_attention_f16, AttentionParams, 256) { attention(Float16(), Plain(), p); }
KERNEL(leat_attention_q8_0, AttentionParams, 256) { attention(Int8(), Plain(), p); }

// leat_attention_various: the same with windows, soft-caps, sinks and slopes.
KERNEL(leat_attention_various_f32, AttentionParams, 256) { attention(Float32(), Various(), p); }
KERNEL(leat_attention_various_f16, AttentionParams, 256) { attention(Float16(), Various(), p); }
KERNEL(leat_attention_various_q8_0, AttentionParams, 256) { attention(Int8(), Various(), p); }
