package arch

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
)

// builder makes the program of one layer. It takes the tensors that the steps
// need from the file.
type builder struct {
	*program.Program
	*tensors
	prefix    string                  // of the layer's tensors: "blk.3."
	width     int                     // of the stream of activations
	rotations map[rope]kernels.Matrix // the frequencies of the model's rotations so far
}

// lacks refuses a declaration that asks for what isn't there yet.
func (b *builder) lacks(what string) {
	b.wrong("%s is not supported yet", what)
}

// presence says whether a file has a tensor, such as a bias.
type presence uint8

const (
	none     presence = iota // it has no place for it: one that is there is refused
	optional                 // it is used where the file has it
	required
)

// linear is a product with a matrix of rows outputs, NAME.weight, to which a
// bias, NAME.bias, may be added.
type linear struct {
	name string
	rows int
	bias presence
}

// linear returns the products of x with each of the matrices, which read x once.
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

// fused is linear where the file has the matrices as one, NAME.weight, whose rows
// theirs are in this order, and their biases likewise.
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

// finds says whether to take a tensor that may be absent, or must be there.
func (b *builder) finds(name string, p presence) bool {
	return p == required || p == optional && b.has(name)
}

// norm is a normalization of rows: y = x/‖x‖·gain + bias. The zero norm is none.
type norm struct {
	kind   normKind
	tensor string // the gain is NAME.weight, the bias NAME.bias
	bias   presence
	eps    float32
}

type normKind uint8

const (
	rmsNorm   normKind = iota + 1 // by the root mean square (Zhang and Sennrich, 2019)
	layerNorm                     // by mean and variance (Ba et al., "Layer Normalization", 2016)
)

// norm returns x, normalized as n says; x itself where n is none. Where heads
// isn't 1, each row is so many heads: a gain as long as a head normalizes them
// one by one, one as long as the row all together.
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

// scale multiplies x by a factor; 0 stands for 1.
func (b *builder) scale(x program.Value, factor float32) {
	if factor != 0 && factor != 1 {
		b.Scale(x, factor)
	}
}

// rope is a rotation of heads by their row's position (Su et al., "RoFormer",
// 2021). The zero rope is none: such a block knows the order of positions by its
// mask alone, or by what was added to the embedding.
type rope struct {
	dims    int      // of a head, the first, that are rotated; the rest stays
	base    float64  // of the frequencies base^(-2i/dims)
	split   bool     // pairs are (i, i+dims/2) rather than (2i, 2i+1)
	factors presence // rope_freqs, by which the frequencies are divided, one by one (Llama 3.1)
}

// frequencies returns a rotation's frequencies, which the blocks of a model have
// in common. They are made after the tensors of the heads were taken: only these
// bear out that a head is as large as the file's keys say.
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
			b.wrong("tensor %s: element %d is %v, by which no frequency can be divided", ropeFactors, i, factors[i])
		}
	}
	b.rotations[r] = computed("rope frequencies", thetas)
	return b.rotations[r]
}

const ropeFactors = "rope_freqs.weight"

// largestFrequency leaves room in a float32 for the product with any position.
const largestFrequency = 0x1p64

// computed returns a vector that isn't in the file.
func computed(name string, x []float32) kernels.Matrix {
	m := kernels.Matrix{Name: name, Type: kernels.F32, Rows: 1, Cols: len(x)}
	for _, v := range x {
		m.Data = binary.LittleEndian.AppendUint32(m.Data, math.Float32bits(v))
	}
	return m
}
