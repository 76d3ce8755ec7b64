package program

import (
	"github.com/leat-dev/leat/kernels"
)

// step is one op of a program.
type step interface {
	// operands returns the values that the step reads and those that it writes. A value that
	// it modifies in place is in both.
	operands() (reads, writes []Value)

	// enqueue enqueues the op. It must not allocate.
	enqueue(r *runner)
}

// Embed returns, for each row of the batch, the row of the table tokens for the row's token.
func (p *Program) Embed(tokens Weight) Value {
	s := &embed{p.value(p.matrix(tokens, table).Cols), tokens}
	p.add(s)
	return s.dst
}

type embed struct {
	dst    Value
	tokens Weight
}

func (s *embed) operands() (reads, writes []Value) { return nil, []Value{s.dst} }
func (s *embed) enqueue(r *runner)                 { r.queue.Embed(r.at(s.dst), r.weights[s.tokens], r.rows) }

// Gather returns the rows of the input for which output is wanted. It must be the first step; all
// further values have only these rows.
func (p *Program) Gather() Value {
	if len(p.steps) > 0 {
		p.fail("Gather is not the first step")
	}
	p.outputs = true
	s := &gather{p.value(p.Cols(Input))}
	p.add(s)
	return s.dst
}

type gather struct{ dst Value }

func (s *gather) operands() (reads, writes []Value) { return []Value{Input}, []Value{s.dst} }
func (s *gather) enqueue(r *runner)                 { r.queue.Gather(r.at(s.dst), r.at(Input), r.rows) }

// Norm is the parameters of a normalization.
type Norm struct {
	Gain, Bias Weight // Bias may be the zero Weight
	Eps        float32
	Centred    bool // whether it is layer normalization, which subtracts the mean first, instead of RMSNorm
	Heads      int  // the number of equal parts of a row, each of which is normalized separately with the same gain; 0 means 1
}

// Norm returns x normalized by n.
func (p *Program) Norm(x Value, n Norm) Value {
	n.Heads = max(1, n.Heads)
	for _, w := range []Weight{n.Gain, n.Bias} {
		if w != 0 && p.matrix(w, vector).Cols*n.Heads != p.Cols(x) {
			p.fail("a norm of %d heads with %s of %d columns for rows of %d", n.Heads, p.weights[w].matrix.Name, p.weights[w].matrix.Cols, p.Cols(x))
		}
	}
	s := &norm{p.value(p.Cols(x)), x, n}
	p.add(s)
	return s.dst
}

type norm struct {
	dst, x Value
	Norm
}

func (s *norm) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.dst} }
func (s *norm) enqueue(r *runner) {
	dst, x := byHead(r.at(s.dst), s.Heads), byHead(r.at(s.x), s.Heads)
	spec := kernels.NormSpec{Gain: r.weights[s.Gain], Bias: r.weights[s.Bias], Eps: s.Eps}
	if s.Centred {
		r.queue.LayerNorm(dst, x, spec)
	} else {
		r.queue.RMSNorm(dst, x, spec)
	}
}

// byHead returns a tensor of the same memory with a row for each head.
func byHead(t kernels.Tensor, heads int) kernels.Tensor {
	if heads > 1 {
		t.Rows *= heads
		t.Cols /= heads
	}
	return t
}

// MatMul returns the products of x with each of the weights. It is one op, in which x is
// quantized once for all weights that need it.
func (p *Program) MatMul(x Value, weights ...Weight) []Value {
	s := &matMul{x: x, first: p.products}
	for _, w := range weights {
		m := p.matrix(w, product)
		if m.Cols != p.Cols(x) {
			p.fail("a product of %d columns with %s of %d", p.Cols(x), m.Name, m.Cols)
		}
		s.weights = append(s.weights, w)
		s.dsts = append(s.dsts, p.value(m.Rows))
	}
	p.products += len(weights)
	p.add(s)
	return s.dsts
}

type matMul struct {
	x       Value
	weights []Weight
	dsts    []Value
	first   int // the index of its first product in runner.products
}

func (s *matMul) operands() (reads, writes []Value) { return []Value{s.x}, s.dsts }
func (s *matMul) enqueue(r *runner) {
	products := r.products[s.first:][:len(s.dsts)]
	for i, dst := range s.dsts {
		products[i].Dst = r.at(dst)
	}
	r.queue.MatMul(r.at(s.x), products)
}

// AddBias adds a vector to each row of x in place.
func (p *Program) AddBias(x Value, bias Weight) {
	if m := p.matrix(bias, vector); m.Cols != p.Cols(x) {
		p.fail("%s of %d columns added to %d", m.Name, m.Cols, p.Cols(x))
	}
	p.add(&addBias{x, bias})
}

type addBias struct {
	x    Value
	bias Weight
}

func (s *addBias) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.x} }
func (s *addBias) enqueue(r *runner)                 { r.queue.AddBias(r.at(s.x), r.weights[s.bias]) }

// RoPE rotates each head of dim elements of x in place, by its row's position. frequencies is a
// vector with one element for each pair of elements of a head. Of the first 2n elements, where n
// is its length, the pairs are (2i, 2i+1) or, if split is true, (i, i+n).
func (p *Program) RoPE(x Value, dim int, frequencies Weight, split bool) {
	if pairs := p.matrix(frequencies, vector).Cols; dim <= 0 || p.Cols(x)%dim != 0 || 2*pairs > dim {
		p.fail("a rotation of %d pairs of heads of %d in %d columns", pairs, dim, p.Cols(x))
	}
	p.add(&rope{x, dim, frequencies, split})
}

type rope struct {
	x           Value
	dim         int
	frequencies Weight
	split       bool
}

func (s *rope) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.x} }
func (s *rope) enqueue(r *runner) {
	r.queue.RoPE(r.at(s.x), kernels.Rotation{HeadDim: s.dim, Frequencies: r.weights[s.frequencies], Split: s.split}, r.rows)
}

// Store stores the keys k and values v of the batch's rows in the cache.
func (p *Program) Store(c Cache, k, v Value) {
	if h := p.caches[c]; p.Cols(k) != h.count*h.dim || p.Cols(v) != h.count*h.dim {
		p.fail("keys of %d columns and values of %d for a cache of %d heads of %d", p.Cols(k), p.Cols(v), h.count, h.dim)
	}
	p.add(&store{c, k, v})
}

type store struct {
	cache Cache
	k, v  Value
}

func (s *store) operands() (reads, writes []Value) { return []Value{s.k, s.v}, nil }
func (s *store) enqueue(r *runner)                 { r.queue.StoreKV(r.caches[s.cache], r.at(s.k), r.at(s.v), r.rows) }

// Attention is the parameters of attention: those of [kernels.AttentionSpec], with a program's
// weights.
type Attention struct {
	Scale, SoftCap float32
	Window         int
	Sinks, Slopes  Weight
}

// Attention returns the attention of the queries q to the keys and values in the cache.
func (p *Program) Attention(q Value, c Cache, a Attention) Value {
	h := p.caches[c]
	if p.Cols(q)%(h.count*h.dim) != 0 {
		p.fail("queries of %d columns for a cache of %d heads of %d", p.Cols(q), h.count, h.dim)
	}
	for _, w := range []Weight{a.Sinks, a.Slopes} {
		if w != 0 && p.matrix(w, vector).Cols*h.dim != p.Cols(q) {
			p.fail("%s of %d columns for %d heads", p.matrix(w, vector).Name, p.matrix(w, vector).Cols, p.Cols(q)/h.dim)
		}
	}
	s := &attention{p.value(p.Cols(q)), q, c, a}
	p.add(s)
	return s.dst
}

type attention struct {
	dst, q Value
	cache  Cache
	Attention
}

func (s *attention) operands() (reads, writes []Value) { return []Value{s.q}, []Value{s.dst} }
func (s *attention) enqueue(r *runner) {
	r.queue.Attention(r.at(s.dst), r.at(s.q), r.caches[s.cache], kernels.AttentionSpec{
		Scale: s.Scale, Window: s.Window, SoftCap: s.SoftCap,
		Sinks: r.weights[s.Sinks], Slopes: r.weights[s.Slopes],
	}, r.rows)
}

// Activate replaces each element of x by f of it.
func (p *Program) Activate(x Value, f kernels.Activation) {
	p.known(f)
	p.add(&activate{x, f})
}

// known checks that the activation function exists.
func (p *Program) known(f kernels.Activation) {
	if !f.Known() {
		p.fail("there is no %v", f)
	}
}

type activate struct {
	x Value
	f kernels.Activation
}

func (s *activate) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.x} }
func (s *activate) enqueue(r *runner)                 { r.queue.Activate(r.at(s.x), r.at(s.x), s.f) }

// Gated replaces each element of gate by f of it, multiplied by the same element of up.
func (p *Program) Gated(gate, up Value, f kernels.Activation) {
	p.sameCols("Gated", gate, up)
	p.known(f)
	p.add(&gated{gate, up, f})
}

type gated struct {
	gate, up Value
	f        kernels.Activation
}

func (s *gated) operands() (reads, writes []Value) { return []Value{s.gate, s.up}, []Value{s.gate} }
func (s *gated) enqueue(r *runner)                 { r.queue.Gated(r.at(s.gate), r.at(s.gate), r.at(s.up), s.f) }

// Scale multiplies x by factor in place.
func (p *Program) Scale(x Value, factor float32) { p.add(&scale{x, factor}) }

type scale struct {
	x      Value
	factor float32
}

func (s *scale) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.x} }
func (s *scale) enqueue(r *runner)                 { r.queue.Scale(r.at(s.x), s.factor) }

// SoftCap replaces each element x by most·tanh(x/most).
func (p *Program) SoftCap(x Value, most float32) { p.add(&softCap{x, most}) }

type softCap struct {
	x    Value
	most float32
}

func (s *softCap) operands() (reads, writes []Value) { return []Value{s.x}, []Value{s.x} }
func (s *softCap) enqueue(r *runner)                 { r.queue.SoftCap(r.at(s.x), s.most) }

// Add adds b to a in place and returns a. If a is the layer's input, it adds a to b and returns b
// instead.
func (p *Program) Add(a, b Value) Value {
	p.sameCols("Add", a, b)
	if a == Input {
		a, b = b, a
	}
	p.add(&add{a, b})
	return a
}

type add struct{ dst, x Value }

func (s *add) operands() (reads, writes []Value) { return []Value{s.dst, s.x}, []Value{s.dst} }
func (s *add) enqueue(r *runner)                 { r.queue.Add(r.at(s.dst), r.at(s.x)) }
