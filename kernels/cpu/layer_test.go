package cpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// layer is the arguments of one call of every op, all of them right.
type layer struct {
	rows                kernels.Rows
	header              *kernels.Header
	x, y, q, k, gate    kernels.Tensor
	outputs, best       kernels.Tensor
	table, gain         kernels.Weight
	square, whole, head kernels.Weight
	products            []kernels.Product
	rotation            kernels.Rotation
	cache               kernels.Cache
}

const (
	layerRows  = 40
	layerWidth = 512
)

func newLayer(r *rig, cacheType kernels.Type) *layer {
	rng := newRand(31)
	weight := func(typ kernels.Type, rows, cols int) kernels.Weight {
		m, _ := matrix(rng, typ, rows, cols)
		return r.pack(m)
	}
	x := func(cols int) kernels.Tensor {
		return r.tensor(layerRows, cols, normals(rng, layerRows*cols))
	}
	l := &layer{
		header: kernels.NewHeader(layerRows, 2),
		x:      x(layerWidth), y: x(layerWidth), q: x(layerWidth), k: x(128), gate: x(layerWidth),
		outputs: r.tensor(2, layerWidth, nil), best: r.tensor(layerRows, 1, nil),
		table: weight(kernels.F16, 100, layerWidth), gain: r.vector(normals(rng, layerWidth)),
		square: weight(kernels.Q8_0, layerWidth, layerWidth), whole: weight(kernels.BF16, 128, layerWidth),
		head:     weight(kernels.F32, 1, layerWidth),
		rotation: kernels.Rotation{HeadDim: 64, Frequencies: r.vector(normals(rng, 32)), Split: true},
	}
	l.best.Type = kernels.I32
	for i := range layerRows {
		l.header.Append(int32(i), int32(i), 0, i == 3 || i == 39)
	}
	l.header.Table([]int32{2, 0})
	l.rows = r.rows(l.header)
	l.products = []kernels.Product{{W: l.square, Dst: l.y}, {W: l.whole, Dst: x(128)}, {W: l.head, Dst: x(1)}}
	cache, err := r.q.NewCache(kernels.CacheSpec{Type: cacheType, Heads: 2, HeadDim: 64, Pages: 3})
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, cache.Free()) })
	l.cache = cache
	return l
}

// clone returns a copy that can be changed without changing the layer.
func (l *layer) clone() *layer {
	c, h := *l, *l.header
	h.Tokens, h.Positions, h.Tables = slices.Clone(h.Tokens), slices.Clone(h.Positions), slices.Clone(h.Tables)
	h.Outputs, h.Pages = slices.Clone(h.Outputs), slices.Clone(h.Pages)
	c.header, c.products = &h, slices.Clone(l.products)
	return &c
}

// ops are the layer's calls by name.
func (l *layer) ops() map[string]func(q kernels.Queue) {
	return map[string]func(q kernels.Queue){
		"Embed":     func(q kernels.Queue) { q.Embed(l.x, l.table, l.rows) },
		"RMSNorm":   func(q kernels.Queue) { q.RMSNorm(l.y, l.x, l.gain, 1e-5) },
		"MatMul":    func(q kernels.Queue) { q.MatMul(l.x, l.products) },
		"RoPE":      func(q kernels.Queue) { q.RoPE(l.q, l.rotation, l.rows) },
		"StoreKV":   func(q kernels.Queue) { q.StoreKV(l.cache, l.k, l.k, l.rows) },
		"Attention": func(q kernels.Queue) { q.Attention(l.y, l.q, l.cache, 0.125, l.rows) },
		"SwiGLU":    func(q kernels.Queue) { q.SwiGLU(l.y, l.gate, l.x) },
		"Add":       func(q kernels.Queue) { q.Add(l.y, l.x) },
		"Gather":    func(q kernels.Queue) { q.Gather(l.outputs, l.y, l.rows) },
		"ArgMax":    func(q kernels.Queue) { q.ArgMax(l.best, l.x) },
	}
}

func TestOpsAllocateNothing(t *testing.T) {
	for _, typ := range cacheTypes {
		r := newRig(t, 0)
		l := newLayer(r, typ)
		for name, op := range l.ops() {
			r.run(op)
			r.q.Begin()
			held := r.q.Device().Allocated()
			require.Zero(t, testing.AllocsPerRun(20, func() { op(r.q) }), "%s with a cache of %v", name, typ)
			require.Equal(t, held, r.q.Device().Allocated(), "%s", name)
			r.q.End()
		}
		r.run(func(kernels.Queue) {})
	}
}

// Scratch of a smaller batch is that of a larger one.
func TestScratchGrowsAndStays(t *testing.T) {
	r := newRig(t, 0)
	l := newLayer(r, kernels.Q8_0)
	all := func(q kernels.Queue) {
		for _, op := range l.ops() {
			op(q)
		}
	}
	r.run(all)
	held := r.q.Device().Allocated()
	l.header.Tokens, l.header.Positions, l.header.Tables = l.header.Tokens[:5], l.header.Positions[:5], l.header.Tables[:5]
	l.header.Outputs = l.header.Outputs[:1]
	rows := l.rows
	copy(rows.Buf.Bytes(), l.header.Encode())
	l.rows.N, l.rows.Outputs = 5, 1
	for _, t := range []*kernels.Tensor{&l.x, &l.y, &l.q, &l.k, &l.gate, &l.best, &l.products[0].Dst, &l.products[1].Dst, &l.products[2].Dst} {
		*t = t.First(5)
	}
	l.outputs = l.outputs.First(1)
	r.run(all)
	require.Equal(t, held, r.q.Device().Allocated())
}

// An op of no rows does nothing.
func TestOpsOfNoRows(t *testing.T) {
	r := newRig(t, 0)
	l := newLayer(r, kernels.F16)
	l.header.Reset()
	l.rows = r.rows(l.header)
	for _, t := range []*kernels.Tensor{&l.x, &l.y, &l.q, &l.k, &l.gate, &l.best, &l.outputs, &l.products[0].Dst, &l.products[1].Dst, &l.products[2].Dst} {
		*t = t.First(0)
	}
	for name, op := range l.ops() {
		require.NoError(t, r.try(op), name)
	}
	r.run(func(q kernels.Queue) { q.MatMul(l.x, nil) })
}

// A base is added to the page numbers of the header, and to nothing else.
func TestBaseMovesPages(t *testing.T) {
	for _, typ := range cacheTypes {
		r := newRig(t, 0)
		l := newLayer(r, typ)
		on := func(base int, pages ...int32) ([]float32, []byte) {
			made, err := r.q.NewCache(kernels.CacheSpec{Type: typ, Heads: 2, HeadDim: 64, Pages: 7})
			require.NoError(t, err)
			defer func() { require.NoError(t, made.Free()) }()
			h := l.clone().header
			copy(h.Pages, pages)
			l := *l
			l.cache, l.rows = made, r.rows(h)
			l.rows.Base = base
			r.run(func(q kernels.Queue) { l.ops()["StoreKV"](q); l.ops()["Attention"](q) })
			return slices.Clone(read(l.y)), slices.Clone(made.(*cache).buf.Bytes())
		}
		y, mem := on(0, 6, 4)
		based, basedMem := on(4, 2, 0)
		require.Equal(t, y, based)
		require.Equal(t, mem, basedMem)
	}
}
