// leat_quantize: a warp brings 32 numbers to int8, a lane one of them: d = max|x|/127,
// q = x·(1/d) rounded half to even, and the sum of the q. A block so small that 1/d is
// infinite becomes zeros; one with an infinity or a NaN gets a d of NaN.
KERNEL(leat_quantize, QuantizeParams, 256) {
  const long long block = (long long)BLOCK_X * WARPS + WARP;
  if (block >= (long long)p.rows * p.cols / 32) return;
  const float v = p.x[block * 32 + LANE];
  const unsigned infinity = 0x7f800000u;

  // Without their signs floats are in the order of their bits, NaNs above all.
  unsigned top = FLOAT_BITS(v) & 0x7fffffffu;
  FOR_UNROLLED
  for (int half = 16; half > 0; half /= 2) {
    const unsigned other = SHUFFLE_XOR(top, half);
    if (other > top) top = other;
  }
  float d = DIV(BITS_FLOAT(top), 127.0f);
  const float inverse = DIV(1.0f, d);
  int q = 0;
  if (top >= infinity) {
    d = BITS_FLOAT(0x7fc00000u);
  } else if (FLOAT_BITS(inverse) == infinity) {
    d = 0;
  } else {
    q = (int)RINT(v * inverse);
  }
  int sum = q;
  FOR_UNROLLED
  for (int half = 16; half > 0; half /= 2) sum += SHUFFLE_XOR(sum, half);

  p.q[block * 32 + LANE] = (signed char)q;
  if (LANE == 0) {
    p.d[block] = d;
    p.sum[block] = sum;
  }
}
