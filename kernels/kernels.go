// Package kernels is the arithmetic on a device's memory: one small op set,
// named after what a reader of a paper expects, over a device's queue.
//
// Each op takes all rows of a batch at once. The order in which it sums is part
// of its meaning, and never depends on which other rows are there, on how many
// cores work, or on how the rows came in: so a request's result has the same
// bits whatever shares its batch. That holds within one kind of device; the
// SIMD levels of a CPU count as kinds of their own.
//
// The op set is implemented once a backend, in sub-packages that register
// themselves when imported: kernels/cpu, kernels/gpu.
package kernels

import (
	"context"

	"github.com/leat-dev/leat/device"
)

// Queue is a device's queue with the op set. Ops are enqueued between Begin and
// End, as package device describes; they check what they are given, and an op
// that can't be done is the queue's error at the next Record.
//
// In shapes below, n is the number of rows of the batch. The orders of sums are
// those of package kernels/cpu; kernels/gpu says its own.
type Queue interface {
	device.Queue

	// Pack puts a matrix on the device in the form that its products like
	// best. It returns when the weight is there. Other goroutines may compute
	// on the device meanwhile; Begin isn't needed.
	Pack(ctx context.Context, m Matrix) (Weight, error)

	// NewCache allocates the key/value pages of one layer.
	NewCache(s CacheSpec) (Cache, error)

	// Reserve allocates beforehand what products need for themselves: of up to
	// rows rows, of up to cols columns where the weights are quantized (0: none
	// are). What goes beyond is allocated when it comes, as is what other ops
	// need, which is little. It lasts until Close.
	Reserve(rows, cols int) error

	// Embed writes row token[i] of table to row i of dst [n, table.Cols].
	// A token outside the table is an error.
	Embed(dst Tensor, table Weight, rows Rows)

	// RMSNorm writes x's rows, normalized as NormSpec says, to dst; both [n, cols].
	// The squares are summed in float64: 16 sums, the i-th of
	// columns i, i+16, i+32 and so on, in order; then the upper 8 are added to
	// the lower 8, of those the upper 4 to the lower 4, and so on.
	RMSNorm(dst, x Tensor, s NormSpec)

	// LayerNorm writes x's rows, normalized as NormSpec says, to dst; both [n, cols].
	// The mean is summed in float64 like RMSNorm's squares, rounded to float32 and
	// subtracted; of what remains, the sum and that of the squares are taken so
	// again, for what the rounding left of the mean, which is subtracted too, and
	// for the variance.
	LayerNorm(dst, x Tensor, s NormSpec)

	// MatMul writes x·Wᵀ to each product's Dst: x [n, k], W [m, k], Dst [n, m].
	// x is brought to the form that the weights need once for all products of
	// a form.
	//
	// F32, F16 and BF16 weights: x stays float32. The sum runs over k in
	// segments of 256: in order within one, with a fused multiply-add where
	// the SIMD level has it; then the segments' sums in order. At the level
	// avx512-bf16 a product with BF16 weights takes x rounded to BF16, half to
	// even: a product differs by 1 part in 256 of itself at most.
	//
	// Quantized weights: x is quantized in blocks of 32 to int8 with scale
	// dx = max|x|/127, q = x·(1/dx) rounded half to even. With a block's q exact
	// integer sums are taken: s of the products with the weights' integers; b of
	// the q, times -8; and s0, s1, b0 and b1 of the two halves of the block. A
	// weight's integer is what the formula of its type multiplies by the scales;
	// a power of two there, such as the 1/8 of IQ2_XXS, belongs to d, and so does
	// the half that MXFP4 and NVFP4 have because their integers are q doubled.
	// Of IQ1_S they are g+1, dmin is d/8 and min is scale·8·(1-δ). Then, blocks in
	// order, each operation rounded to float32 and none fused with another, acc is
	// increased by
	//
	//	s·(d·dx)                                    Q8_0, Q4_0, Q5_0, IQ4_NL, MXFP4, TQ1_0, TQ2_0, Q1_0, Q2_0
	//	s·((d·scale)·dx)                            IQ4_XS, IQ3_S, IQ3_XXS, IQ2_XXS
	//	(d·s + (-m/8)·b)·dx                         Q4_1, Q5_1
	//	((d·scale)·s + (dmin/8·min)·b)·dx           Q4_K, Q5_K, IQ1_S
	//	(d·(scale0·s0 + scale1·s1))·dx              Q6_K, Q3_K, IQ2_XS, IQ2_S, IQ1_M
	//	(d·(scale0·s0 + scale1·s1) + dmin/8·(min0·b0 + min1·b1))·dx    Q2_K
	//	(d0·s0 + d1·s1)·dx                          NVFP4
	//
	// where the sums of products of integers are integers.
	MatMul(x Tensor, products []Product)

	// RoPE rotates each head of x [n, heads·headDim] in place by its row's
	// position.
	RoPE(x Tensor, r Rotation, rows Rows)

	// StoreKV rounds k and v [n, heads·headDim] to the cache's type and stores
	// them at their rows' positions.
	StoreKV(c Cache, k, v Tensor, rows Rows)

	// Attention writes softmax(q·Kᵀ·scale)·V, as AttentionSpec says more closely,
	// to dst, both [n, heads·headDim]. A row attends to the positions 0 to its own,
	// or to those of them in the window; all keys and values come from the cache.
	// heads is a multiple of the cache's; consecutive heads share one of the
	// cache's. dst must not lie over q.
	//
	// The softmax is online, in blocks of PageTokens positions counted from 0. A
	// block's weights are added by halves, those of positions that the row doesn't
	// attend to being 0: the upper 16 to the lower 16, then of those the upper 8,
	// and so on. Its weighted values are summed in order, and then added to those
	// before it. A sink is the first score. Pages of which a row attends to nothing
	// aren't read.
	Attention(dst, q Tensor, c Cache, s AttentionSpec, rows Rows)

	// Activate writes f(x) to dst, both of one shape. dst may be x.
	Activate(dst, x Tensor, f Activation)

	// Gated writes f(gate)·up to dst; all of one shape. dst may be gate or up.
	// (Shazeer, "GLU Variants Improve Transformer", 2020: with SiLU it is SwiGLU,
	// with GELU GEGLU, with ReLU ReGLU.)
	Gated(dst, gate, up Tensor, f Activation)

	// Add adds x to dst, both of one shape.
	Add(dst, x Tensor)

	// AddBias adds bias [1, cols] of F32, F16 or BF16 to every row of x [n, cols].
	AddBias(x Tensor, bias Weight)

	// Scale multiplies every element of x by factor.
	Scale(x Tensor, factor float32)

	// SoftCap replaces every element of x by most·tanh(x/most), which lies within
	// ±most. most is a positive number. (Gemma Team, "Gemma 2: Improving Open
	// Language Models at a Practical Size", 2024.)
	SoftCap(x Tensor, most float32)

	// Gather copies the rows of src that are wanted as output to dst
	// [rows.Outputs, cols], in order.
	Gather(dst, src Tensor, rows Rows)

	// ArgMax writes to dst [n, 1] of I32 the column of the largest value of
	// each row of x; of equals, the first. NaN loses to every number, and where a
	// row has none it is -1.
	ArgMax(dst, x Tensor)
}

// TopKer is what a queue may have beside: the choice of the k largest numbers of
// each row. A layer, or a stage, asks for it once, when it is loaded
//
//	topK, ok := q.(kernels.TopKer)
//
// and does without where it isn't there, as where logits then cross to the host
// whole. An op that few models need, or that not every kind of device has, is an
// interface like this one.
type TopKer interface {
	// TopK writes the k = ids.Cols largest numbers of each row of x [n, cols] to
	// values [n, k], and their columns to ids [n, k] of I32: in descending order,
	// of equals the lower column first. NaN is left out. Where a row has fewer
	// numbers, the rest of it is -1 in ids and -Inf in values. k is at most
	// MostTopK.
	TopK(ids, values, x Tensor)
}

// MostTopK is how many numbers of a row TopK finds at most.
const MostTopK = 256

// Tensor is a handle on a matrix in a device's memory: Rows rows of Cols
// elements, row after row without gaps. It is a value; it owns nothing.
type Tensor struct {
	Buf  device.Buffer
	Off  int64 // bytes from the buffer's start
	Rows int
	Cols int
	Type Type // F32 or I32
}

// Bytes returns the tensor's size in bytes.
func (t Tensor) Bytes() int64 { return int64(t.Rows) * int64(t.Cols) * 4 }

// First returns the tensor's first n rows.
func (t Tensor) First(n int) Tensor { t.Rows = n; return t }

// Weight is a matrix on a device, in an opaque form that belongs to the device.
type Weight interface {
	Type() Type
	Rows() int
	Cols() int
	Bytes() int64 // what it takes on the device, as WeightBytes said beforehand
	Free() error
}

// Product is one of the products that share their left side.
type Product struct {
	W   Weight
	Dst Tensor
}
