package kerneltest

import (
	"slices"

	"github.com/leat-dev/leat/kernels"
)

// LayerRows is how many rows a Layer has.
const LayerRows = 40

// The widths of a Layer: narrow for what doesn't depend on it, wide for work that
// workers share.
const (
	narrow = 256
	wide   = 512
)

// Layer is the arguments of one call of every op, all of them right: of rows of width
// columns, heads of width/8, two of them in the cache.
type Layer struct {
	Rows                kernels.Rows
	Header              *kernels.Header
	X, Y, Q, K, Gate    kernels.Tensor
	Outputs, Best       kernels.Tensor
	IDs, Values         kernels.Tensor
	Table, Gain, Bias   kernels.Weight
	Square, Whole, Head kernels.Weight
	Products            []kernels.Product
	Rotation            kernels.Rotation
	Attention           kernels.AttentionSpec
	Function            kernels.Activation
	Most                float32
	Cache               kernels.Cache
}

// NewLayer makes a layer on a rig.
func NewLayer(r *Rig, cacheType kernels.Type, width int) *Layer {
	r.Helper()
	rng := NewRand(31)
	weight := func(typ kernels.Type, rows, cols int) kernels.Weight { return r.Pack(Matrix(rng, typ, rows, cols)) }
	x := func(cols int) kernels.Tensor {
		return r.Tensor(LayerRows, cols, Normals(rng, LayerRows*cols))
	}
	dim := width / 8
	l := &Layer{
		Header: kernels.NewHeader(LayerRows, 2),
		X:      x(width), Y: x(width), Q: x(width), K: x(2 * dim), Gate: x(width),
		Outputs: r.Tensor(2, width, nil), Best: r.Tensor(LayerRows, 1, nil),
		Table: weight(kernels.F16, 100, width), Gain: r.Vector(Normals(rng, width)), Bias: r.Vector(Normals(rng, width)),
		IDs: r.Tensor(LayerRows, 40, nil), Values: r.Tensor(LayerRows, 40, nil),
		Square: weight(kernels.Q8_0, width, width), Whole: weight(kernels.BF16, 2*dim, width),
		Head:      weight(kernels.F32, 1, width),
		Rotation:  kernels.Rotation{HeadDim: dim, Frequencies: r.Vector(Normals(rng, dim/2)), Split: true},
		Cache:     r.Cache(kernels.CacheSpec{Type: cacheType, Heads: 2, HeadDim: dim, Pages: 3}),
		Attention: kernels.AttentionSpec{Scale: 0.125}, Function: kernels.GELU, Most: 30,
	}
	l.Best.Type, l.IDs.Type = kernels.I32, kernels.I32
	for i := range LayerRows {
		l.Header.Append(int32(i), int32(i), 0, i == 3 || i == 39)
	}
	l.Header.Table([]int32{2, 0})
	l.Rows = r.Rows(l.Header)
	l.Products = []kernels.Product{{W: l.Square, Dst: l.Y}, {W: l.Whole, Dst: x(2 * dim)}, {W: l.Head, Dst: x(1)}}
	return l
}

// Clone returns a copy that can be changed without changing the layer.
func (l *Layer) Clone() *Layer {
	c, h := *l, *l.Header
	h.Tokens, h.Positions, h.Tables = slices.Clone(h.Tokens), slices.Clone(h.Positions), slices.Clone(h.Tables)
	h.Outputs, h.Pages = slices.Clone(h.Outputs), slices.Clone(h.Pages)
	c.Header, c.Products = &h, slices.Clone(l.Products)
	return &c
}

// First makes the layer's tensors those of its first n rows, of which so many are
// wanted as output.
func (l *Layer) First(n, outputs int) {
	for _, t := range []*kernels.Tensor{&l.X, &l.Y, &l.Q, &l.K, &l.Gate, &l.Best, &l.IDs, &l.Values} {
		*t = t.First(n)
	}
	for i := range l.Products {
		l.Products[i].Dst = l.Products[i].Dst.First(n)
	}
	l.Outputs = l.Outputs.First(outputs)
}

// Various returns the layer with an attention that has all that one can have.
func (l *Layer) Various(r *Rig) *Layer {
	v := l.Clone()
	const heads = 8
	v.Attention = kernels.AttentionSpec{Scale: 0.125, Window: 20, SoftCap: 5,
		Sinks: r.Vector(Normals(NewRand(32), heads)), Slopes: r.Vector(Normals(NewRand(33), heads))}
	return v
}

// Ops are the layer's calls by name.
func (l *Layer) Ops() map[string]func(q kernels.Queue) {
	return map[string]func(q kernels.Queue){
		"Embed":     func(q kernels.Queue) { q.Embed(l.X, l.Table, l.Rows) },
		"RMSNorm":   func(q kernels.Queue) { q.RMSNorm(l.Y, l.X, kernels.NormSpec{Gain: l.Gain, Eps: 1e-5}) },
		"LayerNorm": func(q kernels.Queue) { q.LayerNorm(l.Y, l.X, kernels.NormSpec{Gain: l.Gain, Bias: l.Bias, Eps: 1e-5}) },
		"MatMul":    func(q kernels.Queue) { q.MatMul(l.X, l.Products) },
		"RoPE":      func(q kernels.Queue) { q.RoPE(l.Q, l.Rotation, l.Rows) },
		"StoreKV":   func(q kernels.Queue) { q.StoreKV(l.Cache, l.K, l.K, l.Rows) },
		"Attention": func(q kernels.Queue) { q.Attention(l.Y, l.Q, l.Cache, l.Attention, l.Rows) },
		"Activate":  func(q kernels.Queue) { q.Activate(l.Y, l.Gate, l.Function) },
		"Gated":     func(q kernels.Queue) { q.Gated(l.Y, l.Gate, l.X, l.Function) },
		"Scale":     func(q kernels.Queue) { q.Scale(l.Y, 0.5) },
		"SoftCap":   func(q kernels.Queue) { q.SoftCap(l.Y, l.Most) },
		"AddBias":   func(q kernels.Queue) { q.AddBias(l.Y, l.Bias) },
		"Add":       func(q kernels.Queue) { q.Add(l.Y, l.X) },
		"Gather":    func(q kernels.Queue) { q.Gather(l.Outputs, l.Y, l.Rows) },
		"ArgMax":    func(q kernels.Queue) { q.ArgMax(l.Best, l.X) },
		"TopK":      func(q kernels.Queue) { q.(kernels.TopKer).TopK(l.IDs, l.Values, l.X) },
	}
}
