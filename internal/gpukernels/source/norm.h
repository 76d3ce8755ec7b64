// leat_rms_norm: block r normalizes row r. Thread i sums the squares of columns i,
// i+256, i+512 and so on, in order from +0; the 256 sums are added by halves, the upper
// 128 to the lower 128, then of those the upper 64, and so on.
KERNEL(leat_rms_norm, RMSNormParams, 256) {
  SHARED(float, sums, 256);
  const long long at = (long long)BLOCK_X * p.cols;
  float sum = 0;
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col];
    sum = FMA(v, v, sum);
  }
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
  const float squares = sums[0];
  const float f = DIV(1.0f, SQRT(DIV(squares, (float)p.cols) + p.eps));
  for (int col = THREAD; col < p.cols; col += 256) {
    const float v = p.x[at + col], gain = p.gain[col];
    p.dst[at + col] = v * f * gain;
  }
}
