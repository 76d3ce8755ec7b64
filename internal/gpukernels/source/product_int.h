// Products of weights in blocks with quantized activations. Of each block of 32
// columns the integer sums are exact; a segment's sum starts from +0 and takes what
// the blocks contribute in order.

// IntRow is the product of one row of activations.
template <class T>
struct IntRow {
  const IntProductParams &p;
};

template <class T, class Row>
DEVICE float add_blocks(T type, const IntProductParams &p, const Row &row, int segment, int blocks) {
  const long long first = (long long)BLOCK_Y * (p.cols / 32) + segment * (SEGMENT / 32);
  const Scales scales = scales_of(type, row);
  float acc = 0;
  FOR_UNROLLED
  for (int b = 0; b < SEGMENT / 32; b++) {
    if (b < blocks) {
      const Block w = numbers_of(type, row, b);
      const Activations x = {p.q[2 * (first + b)], p.q[2 * (first + b) + 1], p.d[first + b], p.sum[first + b]};
      acc = add_block(type, scales, b, w, x, acc);
    }
  }
  return acc;
}

template <class T>
DEVICE float segment_sum(IntRow<T> &product, int segment) {
  const IntProductParams &p = product.p;
  const T type = T();
  const long long at = ((long long)BLOCK_X * p.chunks + (long long)segment * T::CHUNKS) * LANES + LANE;
  const auto row = strided(p.w, at, LANES);
  const int left = (p.cols - segment * SEGMENT) / 32;
  // The whole segment without conditions, so that all its loads are on their way at once.
  if (left >= SEGMENT / 32) return add_blocks(type, p, row, segment, SEGMENT / 32);
  return add_blocks(type, p, row, segment, left);
}

template <class T>
DEVICE void int_product_one(T, const IntProductParams &p) {
  IntRow<T> row = {p};
  product_of_row(row, (p.cols + SEGMENT - 1) / SEGMENT, p.y, p.outs);
}

// int_product_many brings a segment of the tile's weights, as they are, and of its
// activations to shared memory at a time. A thread takes a block of each of its two
// outputs apart for its four rows.
template <class T>
DEVICE void int_product_many(T type, const IntProductParams &p) {
  enum { BLOCKS = SEGMENT / 32, PER_ROW = 2 * BLOCKS };
  SHARED(Chunk, w, T::CHUNKS * TILE_OUTPUTS);
  SHARED(Chunk, q, TILE_ROWS * PER_ROW);
  SHARED(float, d, TILE_ROWS * BLOCKS);
  SHARED(int, sums, TILE_ROWS * BLOCKS);
  const int panels = (p.outs + LANES - 1) / LANES;
  const int top = BLOCK_Y * TILE_ROWS;
  float total[2][ROWS_EACH];
  FOR_UNROLLED
  for (int j = 0; j < ROWS_EACH; j++) total[0][j] = total[1][j] = 0;

  for (int segment = 0; segment * SEGMENT < p.cols; segment++) {
    const int left = (p.cols - segment * SEGMENT) / 32;
    const int blocks = left < BLOCKS ? left : BLOCKS;
    const int chunks = segment_chunks(type, blocks);
    for (int i = THREAD; i < chunks * TILE_OUTPUTS; i += 256) {
      const int c = i / TILE_OUTPUTS, out = i % TILE_OUTPUTS;
      const int panel = BLOCK_X * 2 + out / LANES;
      Chunk chunk = chunk_of(0, 0, 0, 0);
      if (panel < panels) {
        chunk = p.w[((long long)panel * p.chunks + (long long)segment * T::CHUNKS + c) * LANES + out % LANES];
      }
      w[i] = chunk;
    }
    for (int i = THREAD; i < TILE_ROWS * PER_ROW; i += 256) {
      const int row = top + i / PER_ROW, c = i % PER_ROW;
      Chunk chunk = chunk_of(0, 0, 0, 0);
      if (row < p.rows && c < 2 * blocks) {
        chunk = p.q[2 * ((long long)row * (p.cols / 32) + segment * BLOCKS) + c];
      }
      q[i] = chunk;
    }
    { // as many scales as threads
      const int row = top + THREAD / BLOCKS, b = THREAD % BLOCKS;
      float scale = 0;
      int sum = 0;
      if (row < p.rows && b < blocks) {
        const long long at = (long long)row * (p.cols / 32) + segment * BLOCKS + b;
        scale = p.d[at];
        sum = p.sum[at];
      }
      d[THREAD] = scale;
      sums[THREAD] = sum;
    }
    BARRIER();

    const auto first = strided(w, LANE, TILE_OUTPUTS), second = strided(w, LANES + LANE, TILE_OUTPUTS);
    const Scales scales[2] = {scales_of(type, first), scales_of(type, second)};
    float acc[2][ROWS_EACH];
    FOR_UNROLLED
    for (int j = 0; j < ROWS_EACH; j++) acc[0][j] = acc[1][j] = 0;
    FOR_UNROLLED
    for (int b = 0; b < BLOCKS; b++) {
      if (b < blocks) {
        const Block numbers[2] = {numbers_of(type, first, b), numbers_of(type, second, b)};
        FOR_UNROLLED
        for (int j = 0; j < ROWS_EACH; j++) {
          const int row = WARP * ROWS_EACH + j, at = row * PER_ROW + 2 * b;
          const Activations x = {q[at], q[at + 1], d[row * BLOCKS + b], sums[row * BLOCKS + b]};
          acc[0][j] = add_block(type, scales[0], b, numbers[0], x, acc[0][j]);
          acc[1][j] = add_block(type, scales[1], b, numbers[1], x, acc[1][j]);
        }
      }
    }
    FOR_UNROLLED
    for (int j = 0; j < ROWS_EACH; j++) {
      total[0][j] = add_segment(total[0][j], acc[0][j], segment == 0);
      total[1][j] = add_segment(total[1][j], acc[1][j], segment == 0);
    }
    BARRIER();
  }
  write_tile(p.y, p.rows, p.outs, total);
}

// leat_product_one: block (b, r) computes 32 outputs of row r; see segments.h.
KERNEL(leat_product_one_q8_0, IntProductParams, 256) { int_product_one(Q8_0(), p); }
KERNEL(leat_product_one_q4_0, IntProductParams, 256) { int_product_one(Q4_0(), p); }
KERNEL(leat_product_one_q4_k, IntProductParams, 256) { int_product_one(Q4_K(), p); }
KERNEL(leat_product_one_q6_k, IntProductParams, 256) { int_product_one(Q6_K(), p); }

// leat_product_many: block (b, t) computes 64 outputs of 32 rows.
KERNEL(leat_product_many_q8_0, IntProductParams, 256) { int_product_many(Q8_0(), p); }
KERNEL(leat_product_many_q4_0, IntProductParams, 256) { int_product_many(Q4_0(), p); }
KERNEL(leat_product_many_q4_k, IntProductParams, 256) { int_product_many(Q4_K(), p); }
KERNEL(leat_product_many_q6_k, IntProductParams, 256) { int_product_many(Q6_K(), p); }
