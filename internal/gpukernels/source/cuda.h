// The kernel dialect on CUDA, for NVRTC, which knows the built-in functions without
// any header. internal/emulator/driver/emulated.h is the same dialect on the host.
//
// NVRTC gets --fmad=false: a product and a sum are one operation only where FMA says
// so. Division and square root are rounded correctly, denormals are kept.

#define DEVICE __device__ __forceinline__
#define KERNEL(name, Params, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Params p)

#define IN(T) const T *
#define OUT(T) T *
#define AS_IN(T, pointer) ((const T *)(pointer))
#define AS_OUT(T, pointer) ((T *)(pointer))

typedef uint4 Chunk;

#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define THREAD ((int)threadIdx.x)
#define THREADS ((int)blockDim.x)
#define LANE (THREAD % 32)
#define WARP (THREAD / 32)

#define SHARED(T, name, n) __shared__ T name[n]
#define BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()
#define SHUFFLE(v, lane) __shfl_sync(0xffffffffu, v, lane)
#define SHUFFLE_XOR(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)

#define FOR_UNROLLED _Pragma("unroll")

#define DP4A(a, b, c) __dp4a((int)(a), (int)(b), (int)(c))
#define FMA(a, b, c) __fmaf_rn(a, b, c)
#define DIV(a, b) __fdiv_rn(a, b)
#define SQRT(a) __fsqrt_rn(a)
#define RINT(a) rintf(a)
#define MAXF(a, b) fmaxf(a, b)
#define MINF(a, b) fminf(a, b)
#define FLOAT_BITS(f) __float_as_uint(f)
#define BITS_FLOAT(u) __uint_as_float(u)
#define HALF(u) half_to_float((unsigned short)(u))
#define TO_HALF(f) float_to_half(f)

DEVICE float half_to_float(unsigned short bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}

DEVICE unsigned float_to_half(float f) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}

#define STATUS unsigned *
#define REPORT(status, wrong, op, a, b, c) report_once(status, wrong, op, a, b, c)

DEVICE void report_once(unsigned *status, unsigned wrong, unsigned op, int a, int b, int c) {
  if (atomicCAS(status, 0u, wrong) != 0) return;
  status[1] = op;
  status[2] = (unsigned)a;
  status[3] = (unsigned)b;
  status[4] = (unsigned)c;
}
