// What a GPU can do at most, for internal/gpucheck to hold the other kernels against:
// memory copied, and the two operations that products are made of. No model uses them.

struct CeilingCopyParams {
  OUT(Chunk) dst;      // [1024 · blocks]
  IN(Chunk) src;       // likewise
};

struct CeilingRateParams {
  OUT(int) dst;        // [256 · blocks]
  int rounds;          // each thread does 128 operations a round
  int unused;
};

enum { CHAINS = 8, STEPS = 16 }; // operations that don't wait for each other; in a row

// leat_ceiling_copy: block b copies 16 KiB, all loads before the first store.
KERNEL(leat_ceiling_copy, CeilingCopyParams, 256) {
  const long long at = (long long)BLOCK_X * 1024 + THREAD;
  Chunk chunks[4];
  FOR_UNROLLED
  for (int i = 0; i < 4; i++) chunks[i] = p.src[at + 256 * i];
  FOR_UNROLLED
  for (int i = 0; i < 4; i++) p.dst[at + 256 * i] = chunks[i];
}

// leat_ceiling_fma: what comes out, thread by thread, keeps the compiler from leaving
// the operations out.
KERNEL(leat_ceiling_fma, CeilingRateParams, 256) {
  float acc[CHAINS];
  FOR_UNROLLED
  for (int c = 0; c < CHAINS; c++) acc[c] = (float)(THREAD + c);
  const float a = 0.5f + (float)p.rounds * 1e-9f, b = (float)(THREAD + 1);
  for (int r = 0; r < p.rounds; r++) {
    FOR_UNROLLED
    for (int s = 0; s < STEPS; s++) {
      FOR_UNROLLED
      for (int c = 0; c < CHAINS; c++) acc[c] = FMA(acc[c], a, b);
    }
  }
  float sum = 0;
  FOR_UNROLLED
  for (int c = 0; c < CHAINS; c++) sum = sum + acc[c];
  p.dst[(long long)BLOCK_X * 256 + THREAD] = (int)FLOAT_BITS(sum);
}

// leat_ceiling_dp4a: as leat_ceiling_fma, of integers.
KERNEL(leat_ceiling_dp4a, CeilingRateParams, 256) {
  int acc[CHAINS];
  FOR_UNROLLED
  for (int c = 0; c < CHAINS; c++) acc[c] = THREAD + c;
  const int b = (int)((unsigned)p.rounds * 0x01030507u) + THREAD;
  for (int r = 0; r < p.rounds; r++) {
    FOR_UNROLLED
    for (int s = 0; s < STEPS; s++) {
      FOR_UNROLLED
      for (int c = 0; c < CHAINS; c++) acc[c] = DP4A(acc[c], b, acc[c]);
    }
  }
  int sum = 0;
  FOR_UNROLLED
  for (int c = 0; c < CHAINS; c++) sum = (int)((unsigned)sum + (unsigned)acc[c]);
  p.dst[(long long)BLOCK_X * 256 + THREAD] = sum;
}
