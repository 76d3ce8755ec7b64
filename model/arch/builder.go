package arch

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
)

// builder builds the program of one layer, with the file's tensors that its steps need.
type builder struct {
	*program.Program
	*tensors
	prefix    string                  // of the layer's tensors: "blk.3."
	width     int                     // of the activations between layers
	rotations map[rope]kernels.Matrix // the frequencies of the model's rotations so far
}

// unsupported makes building fail because of something that is not implemented yet.
func (b *builder) unsupported(what string) {
	b.wrong("%s is not supported yet", what)
}

// presence is whether the files of an architecture have a tensor, such as a bias.
type presence uint8

const (
	none     presence = iota // never: it is an error if a file has the tensor
	optional                 // the tensor is used if the file has it
	required                 // always: it is an error if a file lacks the tensor
)

// linear is a product with the matrix NAME.weight, which has rows outputs, plus the bias
// NAME.bias.
type linear struct {
	name string
	rows int
	bias presence
}

// linear returns the products of x with each of the matrices. They are one op, so that x is read
// only once.
func (b *builder) linear(x program.Value, ls ...linear) []program.Value {
	weights := make([]program.Weight, len(ls))
	for i, l := range ls {
		weights[i] = b.Weight(b.matrix(b.prefix+l.name+".weight", l.rows, b.Cols(x)))
	}
	ys := b.MatMul(x, weights...)
	for i, l := range ls {
		b.addBias(ys[i], b.prefix+l.name, l.bias)
	}
	return ys
}

// fused is like linear, for a file that has the matrices concatenated: NAME.weight has their rows
// in the order of ls, and NAME.bias their biases.
func (b *builder) fused(x program.Value, name string, ls ...linear) []program.Value {
	rows, parts := 0, make([]int, len(ls))
	for i, l := range ls {
		parts[i] = l.rows
		rows += l.rows
	}
	whole := b.matrix(b.prefix+name+".weight", rows, b.Cols(x))
	weights := make([]program.Weight, len(ls))
	for i, m := range b.rowsOf(whole, parts) {
		weights[i] = b.Weight(m)
	}
	ys := b.MatMul(x, weights...)
	if bias := b.prefix + name + ".bias"; b.finds(bias, ls[0].bias) {
		for i, m := range b.elementsOf(b.vector(bias, rows), parts) {
			b.AddBias(ys[i], b.Weight(m))
		}
	}
	return ys
}

// addBias adds NAME.bias to x.
func (b *builder) addBias(x program.Value, name string, p presence) {
	if b.finds(name+".bias", p) {
		b.AddBias(x, b.Weight(b.vector(name+".bias", b.Cols(x))))
	}
}

// finds reports whether to use a tensor with the given presence.
func (b *builder) finds(name string, p presence) bool {
	return p == required || p == optional && b.has(name)
}

// norm is a normalization of rows, followed by a product with a gain and the addition of a bias.
// The zero norm does nothing.
type norm struct {
	kind   normKind
	tensor string // the gain is NAME.weight, the bias NAME.bias
	bias   presence
	eps    float32
}

type normKind uint8

const (
	rmsNorm   normKind = iota + 1 // Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019)
	layerNorm                     // Ba et al., "Layer Normalization" (2016)
)

// norm returns x normalized by n, or x itself if n is the zero norm. Each row of x has the given
// number of heads: if the gain has the length of a head, each head is normalized separately, and
// if it has the length of the row, all heads together.
func (b *builder) norm(x program.Value, n norm, heads int) program.Value {
	if n.kind == 0 {
		return x
	}
	name, cols := b.prefix+n.tensor, b.Cols(x)
	if t, ok := b.file.Tensor(name + ".weight"); ok && t.HasShape(uint64(cols)) {
		heads = 1
	}
	spec := program.Norm{
		Gain:    b.Weight(b.vector(name+".weight", cols/heads)),
		Eps:     n.eps,
		Centred: n.kind == layerNorm,
		Heads:   heads,
	}
	if b.finds(name+".bias", n.bias) {
		spec.Bias = b.Weight(b.vector(name+".bias", cols/heads))
	}
	return b.Norm(x, spec)
}

// scale multiplies x by a factor. A factor of 0 means 1.
func (b *builder) scale(x program.Value, factor float32) {
	if factor != 0 && factor != 1 {
		b.Scale(x, factor)
	}
}

// rope is a rotation of heads by their row's position (Su et al., "RoFormer: Enhanced Transformer
// with Rotary Position Embedding", 2021). The zero rope does nothing.
type rope struct {
	dims    int      // the number of elements at the beginning of a head that are rotated
	base    float64  // the frequencies are base^(-2i/dims)
	split   bool     // whether the pairs of elements are (i, i+dims/2) instead of (2i, 2i+1)
	factors presence // rope_freqs, whose elements divide the frequencies (Llama 3.1)
}

// frequencies returns a rotation's frequencies. The blocks of a model with the same rotation use
// the same matrix. frequencies must be called after the tensors of the heads were checked, which
// proves that dims, and so the memory that it allocates, is not larger than the file justifies.
func (b *builder) frequencies(r rope) kernels.Matrix {
	if m, ok := b.rotations[r]; ok {
		return m
	}
	var factors []float32
	if b.finds(ropeFactors, r.factors) {
		factors = b.float32s(ropeFactors, r.dims/2)
	}
	if b.err != nil {
		return kernels.Matrix{Rows: 1, Cols: r.dims / 2}
	}
	thetas := make([]float32, r.dims/2)
	for i := range thetas {
		theta := math.Pow(r.base, -2*float64(i)/float64(r.dims))
		if factors != nil {
			theta /= float64(factors[i])
		}
		thetas[i] = float32(theta)
		if !(math.Abs(theta) <= largestFrequency) {
			b.wrong("tensor %s: element %d is %v: a frequency can't be divided by it", ropeFactors, i, factors[i])
		}
	}
	b.rotations[r] = computed("rope frequencies", thetas)
	return b.rotations[r]
}

const ropeFactors = "rope_freqs.weight"

// largestFrequency is the largest frequency allowed. Its product with any position is finite as a
// float32.
const largestFrequency = 0x1p64

// computed returns a vector with the elements x, which are not from the file.
func computed(name string, x []float32) kernels.Matrix {
	m := kernels.Matrix{Name: name, Type: kernels.F32, Rows: 1, Cols: len(x)}
	for _, v := range x {
		m.Data = binary.LittleEndian.AppendUint32(m.Data, math.Float32bits(v))
	}
	return m
}
