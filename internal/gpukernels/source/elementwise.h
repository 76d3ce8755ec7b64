// Ops of elements: thread i of the grid has element i.

// leat_activate: f(x).
KERNEL(leat_activate, ActivateParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float x = p.x[i];
  p.dst[i] = activation(p.function, x);
}

// leat_gated: f(gate)·up.
KERNEL(leat_gated, GatedParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float gate = p.gate[i], up = p.up[i];
  p.dst[i] = activation(p.function, gate) * up;
}

// leat_scale: x times a number.
KERNEL(leat_scale, NumberParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float x = p.x[i];
  p.x[i] = x * p.number;
}

// leat_soft_cap: x within a number of 0.
KERNEL(leat_soft_cap, NumberParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float x = p.x[i];
  p.x[i] = soft_cap(x, p.number);
}

// leat_add_bias: x plus its column's bias.
KERNEL(leat_add_bias, AddBiasParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float a = p.x[i], b = p.bias[i % p.cols];
  p.x[i] = a + b;
}

// leat_add: thread i of the grid adds element i of x to dst.
KERNEL(leat_add, AddParams, 256) {
  const long long i = (long long)BLOCK_X * 256 + THREAD;
  if (i >= p.n) return;
  const float a = p.dst[i], b = p.x[i];
  p.dst[i] = a + b;
}
