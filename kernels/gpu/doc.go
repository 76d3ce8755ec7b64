// Package gpu is the op set of package kernels on a GPU.
//
// Importing it registers the backend for NVIDIA GPUs, over any device that is a
// [device.Programmable] of that kind. The kernels are in the folder source, in a
// dialect that CUDA, HIP and Metal share; the package itself knows nothing of them
// but an image that the device loads, the functions' names, and the parameters in
// source/params.h, which also draws how weights, activations and caches lie in
// memory. Another kind of GPU is another image.
//
// An op checks its arguments on the host, and launches one kernel (TopK two where rows
// are long, MatMul one a product, and one before where weights are quantized). What a
// header holds, only the kernels see: they check every token, position, page and output
// before they use it, skip the row if it is wrong, and the batch's event then says
// which. Any tensor may begin at a multiple of 4 bytes. It may have up to 2³¹-256
// elements, and MatMul's x up to 2,097,120 rows. In the steady state an op allocates
// nothing, neither on the host nor on the device.
//
// # The order of sums
//
// Results should be the same bits on every GPU that this package runs on, as the
// kernels use IEEE operations alone, exponentials, sines and cosines being polynomials
// of theirs; hardware has yet to show it. They differ in the last bits from a CPU's.
//
// MatMul with F32, F16 and BF16 weights: x stays float32. The sum runs over k in
// segments of 256, in order from +0 within one, with a fused multiply-add. The first
// segment's sum is the output, to which the others' are added in order.
//
// MatMul with quantized weights: x is quantized in blocks of 32 to int8, with scale
// dx = max|x|/127 and q = x·(1/dx) rounded half to even; 0 where 1/dx is infinite; dx
// is NaN where a number of the block is no finite one. The sum again runs in segments
// of 256, a block after another from +0. With s a block's exact integer sum of w·q,
// in which w are the weight's integers (without its offset: nibble-8 of Q4_0, six
// bits-32 of Q6_K), a block adds, each operation rounded to float32,
//
//	Q8_0, Q4_0  s·(dw·dx)
//	Q4_K        ((d·scale)·s - (dmin·min)·Σq)·dx
//	Q6_K        (d·(scale₀·s₀ + scale₁·s₁))·dx, over the block's halves of 16; the inner sum is exact
//
// Products of one row and of many are different kernels with these same sums.
//
// RMSNorm: of 256 sums in float32 the i-th takes the squares of columns i, i+256, …
// in order from +0 with fused multiply-adds. The upper 128 are added to the lower 128,
// of those the upper 64 to the lower 64, and so on. With f = 1/sqrt(sum/cols + eps)
// the result is (x·f)·gain, to which a bias is added.
//
// LayerNorm: sums are RMSNorm's. With the mean m of x, d = x-m, the mean l of the d and
// the mean s of the d², f = 1/sqrt(s-l² + eps) and the result is ((d-l)·f)·gain, to
// which a bias is added.
//
// RoPE: the angle, position·frequency, is the sum of two floats, the product and
// what its rounding lost; sine and cosine are within 2e-7 up to position 2²⁴. Products
// and sums round each for itself.
//
// Attention: a row's page b, of 32 positions, belongs to warp b mod 8, which goes
// through its pages in order with the online softmax. A score is the sum over the
// head's elements, in order from +0 with fused multiply-adds, times scale. A page's
// weights are added by halves, 16, 8, 4, 2, 1; its weighted values in order from +0
// with fused multiply-adds, then added to those before. In the end the warps that had
// a page are merged in order: each one's sums times e^(its maximum - the largest),
// added up, then divided. A sink is merged before the first warp. A score is scaled,
// then bounded, then less what its distance costs. Attention that does no more than
// scale is a kernel of its own.
//
// Activate, Gated and SoftCap have the formulas of source/activation.h, with fused
// operations: SiLU is x/(1+e^(-x)), below 0 x·e^x/(1+e^x); GELU likewise, of another
// power of e. TopK compares only, so that all kinds of device have the same.
// Embed gives each number rounded once.
package gpu
