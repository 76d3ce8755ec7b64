// Kernels for the emulator's own tests: some compute something small, the others do
// what a kernel must not.

struct CopyParams {
  OUT(float) dst;
  IN(float) src;
  int n, from; // dst[i] = src[i + from] for i < n
};

KERNEL(leat_test_copy, CopyParams, 64) {
  const int i = BLOCK_X * THREADS + THREAD;
  if (i < p.n) p.dst[i] = p.src[i + p.from];
}

// A float at a byte address that isn't a multiple of 4.
KERNEL(leat_test_misaligned, CopyParams, 64) {
  IN(signed char) bytes = AS_IN(signed char, p.src) + 1;
  IN(float) floats = AS_IN(float, bytes);
  if (THREAD == 0) p.dst[0] = floats[0];
}

// Sums of a warp, handed round by both kinds of shuffle.
KERNEL(leat_test_shuffle, CopyParams, 64) {
  float v = p.src[THREAD];
  for (int half = 16; half > 0; half /= 2) v += SHUFFLE_XOR(v, half);
  WARP_BARRIER();
  const int from = SHUFFLE(LANE, 5);
  p.dst[THREAD] = v + SHUFFLE((float)WARP, from) * 1000.0f;
}

// A block's numbers, the other way round.
KERNEL(leat_test_barrier, CopyParams, 64) {
  SHARED(float, numbers, 64);
  numbers[THREAD] = p.src[THREAD];
  BARRIER();
  p.dst[THREAD] = numbers[63 - THREAD];
}

// The same without the barrier.
KERNEL(leat_test_no_barrier, CopyParams, 64) {
  SHARED(float, numbers, 64);
  numbers[THREAD] = p.src[THREAD];
  p.dst[THREAD] = numbers[63 - THREAD];
}

// Shared memory that nobody wrote.
KERNEL(leat_test_poison, CopyParams, 64) {
  SHARED(float, numbers, 64);
  p.dst[THREAD] = numbers[THREAD];
}

// An element behind the array's end, if from is 1.
KERNEL(leat_test_shared, CopyParams, 64) {
  SHARED(float, numbers, 64);
  numbers[THREAD + p.from] = 1.0f;
}

// Threads from n on leave before the barrier.
KERNEL(leat_test_leave, CopyParams, 64) {
  if (THREAD >= p.n) return;
  BARRIER();
}

// Half of a warp comes to a shuffle, the other half to another.
KERNEL(leat_test_diverge, CopyParams, 64) {
  if (LANE < 16) {
    p.dst[THREAD] = SHUFFLE(1.0f, 0);
  } else {
    p.dst[THREAD] = SHUFFLE(2.0f, 0);
  }
}

// What the block says of itself, and the status.
struct StatusParams {
  OUT(int) dst;
  STATUS status;
};

KERNEL(leat_test_status, StatusParams, 64) {
  const int block = (BLOCK_Z * 3 + BLOCK_Y) * 2 + BLOCK_X;
  if (THREAD == 0) p.dst[block] = BLOCK_X + 10 * BLOCK_Y + 100 * BLOCK_Z;
  if (THREAD == 7) REPORT(p.status, 3, 2, block, -1, 5);
}

// Conversions, for all 16-bit numbers: to float, and back.
struct HalfParams {
  OUT(float) wide;
  OUT(unsigned short) narrow;
};

KERNEL(leat_test_half, HalfParams, 64) {
  const int i = BLOCK_X * THREADS + THREAD;
  const float f = HALF(i);
  p.wide[i] = f;
  p.narrow[i] = (unsigned short)TO_HALF(f);
}

// Numbers halfway between two 16-bit ones, and just beside.
KERNEL(leat_test_round, HalfParams, 64) {
  const int i = BLOCK_X * THREADS + THREAD;
  p.narrow[i] = (unsigned short)TO_HALF(p.wide[i]);
}

struct DP4AParams {
  OUT(int) dst;
  IN(int) a;
  IN(int) b;
};

KERNEL(leat_test_dp4a, DP4AParams, 64) {
  p.dst[THREAD] = DP4A(p.a[THREAD], p.b[THREAD], THREAD);
}
