// leat_swiglu: thread i of the grid computes element i of gate/(1+e^-gate)·up. A gate
// below 0 is taken as gate·e^gate/(1+e^gate), where nothing overflows.
KERNEL(leat_swiglu, SwiGLUParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float gate = p.gate[i], up = p.up[i];
  const unsigned sign = 0x80000000u, bits = FLOAT_BITS(gate);
  const float power = exponential(BITS_FLOAT(bits | sign));
  const float numerator = bits & sign ? gate * power : gate;
  p.dst[i] = DIV(numerator, 1.0f + power) * up;
}

// leat_add: thread i of the grid adds element i of x to dst.
KERNEL(leat_add, AddParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float a = p.dst[i], b = p.x[i];
  p.dst[i] = a + b;
}
