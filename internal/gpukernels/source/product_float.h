// Products of float weights: y = x·wᵀ. Of each segment of 256 columns the sum starts
// from +0 and takes the columns in order, by fused operations.

// read_four reads columns col to col+3 of a row of x that begins at at; what is behind
// the row, as where there is no row, is 0.
DEVICE Chunk read_four(IN(float) x, long long at, int col, int cols) {
  unsigned bits[4];
  FOR_UNROLLED
  for (int i = 0; i < 4; i++) {
    bits[i] = 0;
    if (col + i < cols) bits[i] = FLOAT_BITS(x[at + col + i]);
  }
  return chunk_of(bits[0], bits[1], bits[2], bits[3]);
}

// add_chunk adds a chunk's products to acc, in order; x holds the activations, four by
// four, from at on.
template <class T, class Memory>
DEVICE float add_chunk(T type, Chunk w, Memory &x, int at, float acc) {
  FOR_UNROLLED
  for (int f = 0; f < T::FOURS; f++) {
    const Chunk four = x[at + f];
    acc = add_four(four_of(type, w, f), four, acc);
  }
  return acc;
}

// FloatRow is the product of one row of x. Each warp brings a segment of x to its part
// of shared memory, where all lanes read it at once.
template <class T, class Memory>
struct FloatRow {
  const FloatProductParams &p;
  Memory &x; // for each warp, a segment
};

template <class T, class Memory>
DEVICE float segment_sum(FloatRow<T, Memory> &row, int segment) {
  enum { AHEAD = 8 / T::FOURS };
  const FloatProductParams &p = row.p;
  const T type = T();
  const int first = segment * SEGMENT, fours = SEGMENT / 4, here = WARP * fours;
  WARP_BARRIER();
  for (int i = LANE; i < fours; i += LANES) {
    row.x[here + i] = read_four(p.x, (long long)BLOCK_Y * p.cols, first + 4 * i, p.cols);
  }
  WARP_BARRIER();

  const int before = first / (4 * T::FOURS), per = fours / T::FOURS;
  const int chunks = p.chunks - before < per ? p.chunks - before : per;
  const int lane = LANE < p.lanes ? LANE : 0;
  const long long at = ((long long)BLOCK_X * p.chunks + before) * p.lanes + lane;
  float acc = 0;
  int c = 0;
  for (; c + AHEAD <= chunks; c += AHEAD) { // so many loads are on their way at once
    Chunk w[AHEAD];
    FOR_UNROLLED
    for (int i = 0; i < AHEAD; i++) w[i] = p.w[at + (long long)(c + i) * p.lanes];
    FOR_UNROLLED
    for (int i = 0; i < AHEAD; i++) acc = add_chunk(type, w[i], row.x, here + (c + i) * T::FOURS, acc);
  }
  for (; c < chunks; c++) {
    const Chunk w = p.w[at + (long long)c * p.lanes];
    acc = add_chunk(type, w, row.x, here + c * T::FOURS, acc);
  }
  return acc;
}

template <class T, class Memory>
DEVICE FloatRow<T, Memory> float_row(T, const FloatProductParams &p, Memory &x) {
  return FloatRow<T, Memory>{p, x};
}

template <class T>
DEVICE void float_product_one(T type, const FloatProductParams &p) {
  SHARED(Chunk, x, WARPS * SEGMENT / 4);
  auto row = float_row(type, p, x);
  product_of_row(row, (p.cols + SEGMENT - 1) / SEGMENT, p.y, p.outs);
}

// float_product_many brings 64 columns of the tile's weights, as floats, and of its
// activations to shared memory at a time. Chunks are taken whole, as by one row: what
// fills up the last one are zeros in both.
template <class T>
DEVICE void float_product_many(T type, const FloatProductParams &p) {
  enum { STEP = 64, FOURS = STEP / 4, PER = 4 * T::FOURS };
  SHARED(Chunk, w, FOURS * TILE_OUTPUTS);
  SHARED(Chunk, x, TILE_ROWS * FOURS);
  const int panels = (p.outs + LANES - 1) / LANES;
  const int top = BLOCK_Y * TILE_ROWS;
  float acc[2][ROWS_EACH], total[2][ROWS_EACH];
  FOR_UNROLLED
  for (int j = 0; j < ROWS_EACH; j++) acc[0][j] = acc[1][j] = total[0][j] = total[1][j] = 0;

  for (int first = 0; first < p.cols; first += STEP) {
    const int columns = p.cols - first < STEP ? p.cols - first : STEP;
    const int chunks = (columns + PER - 1) / PER;
    for (int i = THREAD; i < chunks * TILE_OUTPUTS; i += 256) {
      const int c = i / TILE_OUTPUTS, out = i % TILE_OUTPUTS;
      const int panel = BLOCK_X * 2 + out / LANES, lane = out % LANES;
      Chunk chunk = chunk_of(0, 0, 0, 0);
      if (panel < panels && lane < p.lanes) {
        chunk = p.w[((long long)panel * p.chunks + first / PER + c) * p.lanes + lane];
      }
      FOR_UNROLLED
      for (int f = 0; f < T::FOURS; f++) w[(c * T::FOURS + f) * TILE_OUTPUTS + out] = four_of(type, chunk, f);
    }
    for (int i = THREAD; i < TILE_ROWS * FOURS; i += 256) {
      const int row = top + i / FOURS;
      x[i] = read_four(p.x, (long long)row * p.cols, first + i % FOURS * 4, row < p.rows ? p.cols : 0);
    }
    BARRIER();

    for (int f = 0; f < chunks * T::FOURS; f++) {
      const Chunk left = w[f * TILE_OUTPUTS + LANE], right = w[f * TILE_OUTPUTS + LANES + LANE];
      FOR_UNROLLED
      for (int j = 0; j < ROWS_EACH; j++) {
        const Chunk four = x[(WARP * ROWS_EACH + j) * FOURS + f];
        acc[0][j] = add_four(left, four, acc[0][j]);
        acc[1][j] = add_four(right, four, acc[1][j]);
      }
    }
    BARRIER();

    if (first % SEGMENT == SEGMENT - STEP || p.cols - first <= STEP) {
      FOR_UNROLLED
      for (int j = 0; j < ROWS_EACH; j++) {
        FOR_UNROLLED
        for (int i = 0; i < 2; i++) {
          total[i][j] = add_segment(total[i][j], acc[i][j], first < SEGMENT);
          acc[i][j] = 0;
        }
      }
    }
  }
  write_tile(p.y, p.rows, p.outs, total);
}

// leat_product_one: block (b, r) computes 32 outputs of row r; see segments.h.
KERNEL(leat_product_one_f32, FloatProductParams, 256) { float_product_one(Float32(), p); }
KERNEL(leat_product_one_f16, FloatProductParams, 256) { float_product_one(Float16(), p); }
KERNEL(leat_product_one_bf16, FloatProductParams, 256) { float_product_one(BFloat16(), p); }

// leat_product_many: block (b, t) computes 64 outputs of 32 rows.
KERNEL(leat_product_many_f32, FloatProductParams, 256) { float_product_many(Float32(), p); }
KERNEL(leat_product_many_f16, FloatProductParams, 256) { float_product_many(Float16(), p); }
KERNEL(leat_product_many_bf16, FloatProductParams, 256) { float_product_many(BFloat16(), p); }
