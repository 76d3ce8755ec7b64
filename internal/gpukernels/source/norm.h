// Norms: block r normalizes row r.

// block_sum adds the threads' numbers by halves, the upper 128 to the lower 128, then
// of those the upper 64, and so on, and returns the sum to all of them.
DEVICE float block_sum(float sum) {
  SHARED(float, sums, 256);
  BARRIER(); // all have the sum before
  sums[THREAD] = sum;
  BARRIER();
  for (int half = 128; half > 0; half /= 2) {
    if (THREAD < half) {
      const float other = sums[THREAD + half];
      sum += other;
      sums[THREAD] = sum;
    }
    BARRIER();
  }
  return sums[0];
}

// leat_rms_norm: thread i sums the squares of columns i, i+256, i+512 and so on, in
// order from +0; then the threads' sums are added.
KERNEL(leat_rms_norm, NormParams, 256) {
  const long long at = (long long)BLOCK_X * p.cols;
  float sum = 0;
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col];
    sum = FMA(v, v, sum);
  }
  const float squares = block_sum(sum);
  const float f = DIV(1.0f, SQRT(DIV(squares, (float)p.cols) + p.eps));
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col], gain = p.gain[col];
    float y = v * f * gain;
    if (p.biased) y = y + p.bias[col];
    p.dst[at + col] = y;
  }
}

// leat_layer_norm: sums are those of leat_rms_norm. The mean is taken away twice: what
// the first leaves is small, and its square too, so that the variance loses nothing by
// the difference of squares (Chan, Golub and LeVeque, "Algorithms for Computing the
// Sample Variance", 1983).
KERNEL(leat_layer_norm, NormParams, 256) {
  const long long at = (long long)BLOCK_X * p.cols;
  const float n = (float)p.cols;
  float sum = 0;
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col];
    sum = sum + v;
  }
  const float mean = DIV(block_sum(sum), n);
  float rest = 0, squares = 0;
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col];
    const float d = v - mean;
    rest = rest + d;
    squares = FMA(d, d, squares);
  }
  const float left = DIV(block_sum(rest), n);
  const float variance = MAXF(0.0f, DIV(block_sum(squares), n) - left * left);
  const float f = DIV(1.0f, SQRT(variance + p.eps));
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col], gain = p.gain[col];
    float y = (v - mean - left) * f * gain;
    if (p.biased) y = y + p.bias[col];
    p.dst[at + col] = y;
  }
}
