// All kernels, in the dialect that cuda.h and the emulator's emulated.h define:
// one of the two comes before this file. A block has 256 threads, 8 warps of 32 lanes.
//
// All that is computed is IEEE arithmetic in an order that is written down, so that a
// GPU of any generation gives the same bits, and the emulator too.
//
// What the dialect asks of another prelude:
//
// HIP needs one like cuda.h and nothing else. Clang compiles these files as they are for
// AMD's wavefronts of 32 and of 64 lanes; that was tried, nothing has run there. A warp
// is 32 threads on either: LANE and WARP come from THREAD, SHUFFLE must stay within 32
// lanes (a width of 32), and in a wavefront of 64 either half may be alone at a SHUFFLE
// or WARP_BARRIER.
//
// Metal needs more than a prelude, for its language ties down what these files leave
// open: references and pointers name their address space, also those of a template's
// argument (Memory &, const Params &, float *); threadgroup arrays are declared in a
// kernel alone, here SHARED stands in functions too; the indices of block and thread are
// a kernel's arguments, here functions use them; and there is no long long. Pointers in
// a struct of parameters are allowed there, as addresses (Metal 3). A GPU that takes
// denormals for zeros can't have the same bits.

#include "params.h"

#include "elementary.h"
#include "chunk.h"
#include "batch.h"

#include "embed.h"
#include "norm.h"
#include "rope.h"
#include "cache.h"
#include "activation.h"
#include "attention.h"
#include "elementwise.h"
#include "output.h"
#include "topk.h"

#include "segments.h"
#include "product_float.h"
#include "quantize.h"
#include "blocks.h"
#include "product_int.h"

#include "ceiling.h"
