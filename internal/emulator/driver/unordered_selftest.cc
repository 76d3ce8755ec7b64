// Kernels whose threads touch the same memory, for the test of unordered.h. In the
// names, "ordered" ones are right and the others are what a kernel must not do.

struct UnorderedParams {
  OUT(float) dst; // 256 floats
  int how, unused;
};

// Shared memory, in blocks of two warps.
KERNEL(leat_test_unordered_shared, UnorderedParams, 64) {
  SHARED(float, numbers, 64);
  const int across = 63 - THREAD, beside = THREAD ^ 1;
  float v = 0;
  switch (p.how) {
  case 0: // ordered by the block's barrier
    numbers[THREAD] = 1.0f;
    BARRIER();
    v = numbers[across];
    BARRIER();
    numbers[THREAD] = v;
    break;
  case 1: // ordered by the warp's barrier
    numbers[THREAD] = 1.0f;
    WARP_BARRIER();
    v = numbers[beside];
    WARP_BARRIER();
    numbers[THREAD] = v;
    break;
  case 2: // a shuffle orders no memory
    numbers[THREAD] = 1.0f;
    v = SHUFFLE_XOR(v, 1);
    v += numbers[beside];
    break;
  case 3: // a warp's barrier orders no other warp
    numbers[THREAD] = 1.0f;
    WARP_BARRIER();
    v = numbers[across];
    break;
  case 4: // read in the round before
    numbers[THREAD] = 1.0f;
    BARRIER();
    v = numbers[across];
    numbers[THREAD] = v;
    break;
  case 5: // all read what one writes
    v = numbers[0];
    if (THREAD == 40) numbers[0] = 1.0f;
    break;
  case 6: // the other warp reads too, before or after
    v = numbers[0];
    WARP_BARRIER();
    if (THREAD == 0) numbers[0] = 1.0f;
    break;
  case 7: // ordered: only the writer's warp reads
    if (WARP == 0) {
      v = numbers[0];
      WARP_BARRIER();
      if (THREAD == 7) numbers[0] = 1.0f;
    }
    break;
  case 8: // two write, the one after the other
    if (LANE == 0) numbers[0] = 1.0f;
    break;
  case 9: // lanes of a warp read in one epoch, one of them writes in it
    if (WARP == 0) {
      v = numbers[0];
      if (THREAD == 31 || THREAD == 0) numbers[0] = 1.0f;
    }
    break;
  case 10: // ordered: everyone's own
    numbers[THREAD] = 1.0f;
    numbers[THREAD] += numbers[THREAD];
    break;
  }
  if (v < 0) p.dst[THREAD] = v;
}

// Device memory, in two blocks of two warps.
KERNEL(leat_test_unordered_device, UnorderedParams, 64) {
  const int own = BLOCK_X * 64 + THREAD, beside = BLOCK_X * 64 + 63 - THREAD;
  OUT(signed char) bytes = AS_OUT(signed char, p.dst);
  float v = 0;
  switch (p.how) {
  case 0: // ordered by the block's barrier
    p.dst[own] = 1.0f;
    BARRIER();
    v = p.dst[beside];
    break;
  case 1: // ordered: blocks read the same
    v = p.dst[0];
    p.dst[own + 1] = v;
    break;
  case 2: // two threads of a block
    p.dst[own] = 1.0f;
    v = p.dst[beside];
    break;
  case 3: // a block's barrier orders no other block
    p.dst[own] = 1.0f;
    BARRIER();
    v = p.dst[(own + 64) % 128];
    break;
  case 4: // both blocks write, and be it the same
    if (THREAD == 0) p.dst[5] = 1.0f;
    break;
  case 5: // all read what a block writes
    v = p.dst[5];
    BARRIER();
    if (own == 64) p.dst[5] = 1.0f;
    break;
  case 6: // ordered: bytes of a word are apart, and whole words behind a barrier
    bytes[own] = (signed char)THREAD;
    BARRIER();
    if (THREAD < 16) v = p.dst[BLOCK_X * 16 + THREAD];
    break;
  case 7: // a word of which another thread has written a byte
    bytes[own] = (signed char)THREAD;
    if (THREAD < 16) v = p.dst[BLOCK_X * 16 + THREAD];
    break;
  case 8: // a byte of a word that another thread has read
    if (THREAD < 16) v = p.dst[BLOCK_X * 16 + THREAD];
    WARP_BARRIER();
    bytes[own] = (signed char)THREAD;
    break;
  case 9: // the same in the first warp's words alone, which is ordered
    if (THREAD < 8) v = p.dst[BLOCK_X * 16 + THREAD];
    WARP_BARRIER();
    if (WARP == 0) bytes[BLOCK_X * 64 + THREAD] = (signed char)THREAD;
    break;
  }
  if (v == 77.0f) p.dst[own] = v;
}
