// leat_gather: block i copies the row that output i wants to row i of dst. An output
// of a row that isn't there becomes zeros.
KERNEL(leat_gather, GatherParams, 256) {
  const int output = BLOCK_X;
  bool good = header_holds(p.header, p.status, GATHER, p.rows, p.outputs, -1);
  int row = 0;
  if (good) {
    row = output_of(p.header, p.rows, output);
    if (row < 0 || row >= p.rows) {
      if (THREAD == 0) REPORT(p.status, OUTPUT_OUTSIDE, GATHER, output, row, p.rows);
      good = false;
    }
  }
  for (int col = THREAD; col < p.cols; col += 256) {
    float v = 0;
    if (good) v = p.src[(long long)row * p.cols + col];
    p.dst[(long long)output * p.cols + col] = v;
  }
}

// beats says whether v of column at takes the place of the best so far: it is larger,
// or a number where that is NaN, or as good and further left.
DEVICE bool beats(float v, int at, float best, int column) {
  if (v > best || (best != best && v == v)) return true;
  return at < column && (v == best || (v != v && best != best));
}

// leat_argmax: block r finds the column of the largest value of row r; of equals the
// first. A thread looks at every 256th column, then the threads' best are compared by
// halves. NaN loses to every number; where there is none, the answer is -1.
KERNEL(leat_argmax, ArgMaxParams, 256) {
  SHARED(float, values, 256);
  SHARED(int, columns, 256);
  const long long row = (long long)BLOCK_X * p.cols;
  const float nan = BITS_FLOAT(0x7fc00000u);
  float best = nan;
  int column = THREAD < p.cols ? THREAD : 0;
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[row + col];
    if (beats(v, col, best, column)) {
      best = v;
      column = col;
    }
  }
  values[THREAD] = best;
  columns[THREAD] = column;
  BARRIER();
  for (int half = 128; half > 0; half /= 2) {
    if (THREAD < half) {
      const float v = values[THREAD + half];
      const int at = columns[THREAD + half];
      if (beats(v, at, best, column)) {
        values[THREAD] = best = v;
        columns[THREAD] = column = at;
      }
    }
    BARRIER();
  }
  if (THREAD == 0) p.dst[BLOCK_X] = best == best ? column : -1;
}
