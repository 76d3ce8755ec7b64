package gpu

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
	layerWidth = 256
)

func newLayer(r *rig, cacheType kernels.Type) *layer {
	rng := newRand(31)
	weight := func(typ kernels.Type, rows, cols int) kernels.Weight { return r.pack(matrix(rng, typ, rows, cols)) }
	x := func(cols int) kernels.Tensor {
		return r.tensor(layerRows, cols, normals(rng, layerRows*cols))
	}
	l := &layer{
		header: kernels.NewHeader(layerRows, 2),
		x:      x(layerWidth), y: x(layerWidth), q: x(layerWidth), k: x(64), gate: x(layerWidth),
		outputs: r.tensor(2, layerWidth, nil), best: r.tensor(layerRows, 1, nil),
		table: weight(kernels.F16, 100, layerWidth), gain: r.vector(normals(rng, layerWidth)),
		square: weight(kernels.Q8_0, layerWidth, layerWidth), whole: weight(kernels.BF16, 64, layerWidth),
		head:     weight(kernels.F32, 1, layerWidth),
		rotation: kernels.Rotation{HeadDim: 32, Frequencies: r.vector(normals(rng, 16)), Split: true},
	}
	l.best.Type = kernels.I32
	for i := range layerRows {
		l.header.Append(int32(i), int32(i), 0, i == 3 || i == 39)
	}
	l.header.Table([]int32{2, 0})
	l.rows = r.rows(l.header)
	l.products = []kernels.Product{{W: l.square, Dst: l.y}, {W: l.whole, Dst: x(64)}, {W: l.head, Dst: x(1)}}
	cache, err := r.q.NewCache(kernels.CacheSpec{Type: cacheType, Heads: 2, HeadDim: 32, Pages: 3})
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

// The workspace of a smaller batch is that of a larger one.
func TestWorkspaceGrowsAndStays(t *testing.T) {
	r := onGPU(t)
	l := newLayer(r, kernels.Q8_0)
	few := l.clone()
	few.x = few.x.First(5)
	for i := range few.products {
		few.products[i].Dst = few.products[i].Dst.First(5)
	}
	empty := r.q.Device().Allocated()
	r.run(func(q kernels.Queue) {
		few.ops()["MatMul"](q)
		l.ops()["MatMul"](q) // the kernels before still need the smaller one
	})
	held := r.q.Device().Allocated()
	require.EqualValues(t, layerRows*layerWidth/32*40, held-empty)
	r.run(few.ops()["MatMul"])
	require.Equal(t, held, r.q.Device().Allocated())
}

func TestReserveTakesWhatWasSaidBeforehand(t *testing.T) {
	r := onGPU(t)
	before, info := r.q.Device().Allocated(), r.q.Device().Info()
	for _, c := range []struct{ rows, cols int }{{0, 0}, {7, 0}, {3, 100}, {64, 512}} {
		want, err := backend{}.WorkspaceBytes(info, c.rows, c.cols)
		require.NoError(t, err)
		require.NoError(t, r.q.Reserve(c.rows, c.cols))
		require.Equal(t, want, r.q.Device().Allocated()-before, "%v", c)
	}
	info.Description = imagined
	want, err := backend{}.WorkspaceBytes(info, 64, 512)
	require.NoError(t, err)
	require.EqualValues(t, kernels.ContextBytes+64*512/32*40, want)
	_, err = backend{}.WorkspaceBytes(info, 1<<40, 1<<40)
	require.ErrorContains(t, err, "more than memory can hold")
	require.ErrorContains(t, r.q.Reserve(1<<40, 1<<40), "more than memory can hold")
	require.ErrorContains(t, r.q.Reserve(-1, 64), "-1 rows")
	require.Error(t, r.q.Reserve(1<<20, 1<<20), "more than the GPU has")
	require.NoError(t, r.q.Reserve(64, 512), "it is as good as before")
}

// An op of no rows does nothing.
func TestOpsOfNoRows(t *testing.T) {
	r := onGPU(t)
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
