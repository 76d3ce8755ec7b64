// All kernels, in the dialect that cuda.h and the emulator's emulated.h define:
// one of the two comes before this file. A block has 256 threads, 8 warps of 32 lanes.
//
// All that is computed is IEEE arithmetic in an order that is written down, so that a
// GPU of any generation gives the same bits, and the emulator too.

#include "params.h"

#include "elementary.h"
#include "chunk.h"
#include "batch.h"

#include "embed.h"
#include "norm.h"
#include "rope.h"
#include "cache.h"
#include "attention.h"
#include "elementwise.h"
#include "output.h"

#include "segments.h"
#include "product_float.h"
#include "quantize.h"
#include "blocks.h"
#include "product_int.h"

#include "ceiling.h"
