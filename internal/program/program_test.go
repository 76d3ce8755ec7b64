package program

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// matrix is a weight of small random numbers.
func matrix(name string, rows, cols int) kernels.Matrix {
	rng := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) / 8
	}
	return kernels.Matrix{Name: name, Type: kernels.F32, Rows: rows, Cols: cols, Data: kerneltest.BytesOf(x)}
}

// block is what most blocks of a transformer are.
func block(width, heads, keys, dim, hidden int) (*Program, Value) {
	p := New("block", width)
	weight := func(rows, cols int) Weight { return p.Weight(matrix("w", rows, cols)) }
	norm := func(x Value) Value { return p.Norm(x, Norm{Gain: weight(1, width), Eps: 1e-5}) }

	qkv := p.MatMul(norm(Input), weight(heads*dim, width), weight(keys*dim, width), weight(keys*dim, width))
	turn := weight(1, dim/2)
	p.RoPE(qkv[0], dim, turn, false)
	p.RoPE(qkv[1], dim, turn, false)
	cache := p.Cache(keys, dim)
	p.Store(cache, qkv[1], qkv[2])
	y := p.Attention(qkv[0], cache, Attention{Scale: 0.25})
	x := p.Add(Input, p.MatMul(y, weight(width, heads*dim))[0])

	gateUp := p.MatMul(norm(x), weight(hidden, width), weight(hidden, width))
	p.Gated(gateUp[0], gateUp[1], kernels.SiLU)
	return p, p.Add(x, p.MatMul(gateUp[0], weight(width, hidden))[0])
}

// The workspace is what the widest moment needs: here the feed-forward layer's
// two products with their input, or the products of attention with theirs.
func TestScratch(t *testing.T) {
	for _, c := range []struct{ width, heads, keys, dim, hidden, want int }{
		{64, 4, 2, 16, 128, 64 + 2*128},
		{64, 4, 4, 32, 32, 64 + 3*128},
		{64, 8, 2, 32, 32, 64 + 256 + 256}, // the result is too wide for the place of the products' input
	} {
		p, out := block(c.width, c.heads, c.keys, c.dim, c.hidden)
		l, err := p.Layer(out)
		require.NoError(t, err)
		assert.Equal(t, stage.Shape{Width: 64, Scratch: c.want}, l.Shape())
	}
}

// Whatever the steps are, values that are needed at the same time lie apart, and
// within the workspace.
func TestValuesLieApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		p := New("random", 8)
		x, steps := []Value{Input}, 2+rng.IntN(30)
		for range steps {
			from := x[rng.IntN(len(x))]
			var weights []Weight
			for range 1 + rng.IntN(3) {
				weights = append(weights, p.Weight(kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 1 + rng.IntN(9), Cols: p.Cols(from)}))
			}
			x = append(x, p.MatMul(from, weights...)...)
			if v := x[rng.IntN(len(x))]; v != Input {
				p.Scale(v, 2)
			}
		}
		out := x[len(x)-1]
		l, err := p.Layer(out)
		require.NoError(t, err)

		first, last := map[Value]int{}, map[Value]int{}
		for i, s := range p.steps {
			reads, writes := s.operands()
			for _, v := range slices.Concat(reads, writes) {
				last[v] = i
				if _, ok := first[v]; !ok {
					first[v] = i
				}
			}
		}
		needed := func(v Value, at int) bool { return first[v] <= at && at <= last[v] }
		for at := range p.steps {
			for v := Input + 1; int(v) < len(p.values); v++ {
				a := p.values[v]
				if a.location != workspace || !needed(v, at) {
					continue
				}
				if a.at+a.cols > l.Shape().Scratch {
					t.Fatalf("value %d ends at %d, behind the workspace of %d", v, a.at+a.cols, l.Shape().Scratch)
				}
				for w := v + 1; int(w) < len(p.values); w++ {
					b := p.values[w]
					if b.location == workspace && needed(w, at) && a.at < b.at+b.cols && b.at < a.at+a.cols {
						t.Fatalf("values %d and %d overlap in step %d", v, w, at)
					}
				}
			}
		}
		require.Equal(t, output, p.values[out].location)
	}
}

// A mistake in a program is an error of Layer, the first one.
func TestMistakes(t *testing.T) {
	for says, steps := range map[string]func(p *Program) Value{
		"writes the layer's input":              func(p *Program) Value { p.Scale(Input, 2); return Input },
		"no step writes the layer's output":     func(p *Program) Value { return Input },
		"there is no activation 0":              func(p *Program) Value { v := product8(p); p.Activate(v, 0); return v },
		"no step uses spare":                    func(p *Program) Value { p.Weight(matrix("spare", 1, 8)); return product8(p) },
		"a product of 8 columns with w of 9":    func(p *Program) Value { return p.MatMul(Input, p.Weight(matrix("w", 8, 9)))[0] },
		"Add of 8 and 4 columns":                func(p *Program) Value { return p.Add(Input, p.MatMul(Input, p.Weight(matrix("w", 4, 8)))[0]) },
		"Gather is not the first step":          func(p *Program) Value { product8(p); return p.Gather() },
		"a norm of 1 heads with g of 4 columns": func(p *Program) Value { return p.Norm(Input, Norm{Gain: p.Weight(matrix("g", 1, 4))}) },
		"b of 4 columns added to 8":             func(p *Program) Value { v := product8(p); p.AddBias(v, p.Weight(matrix("b", 1, 4))); return v },
		"a rotation of 3 pairs of heads of 4":   func(p *Program) Value { v := product8(p); p.RoPE(v, 4, p.Weight(matrix("f", 1, 3)), false); return v },
		"queries of 8 columns for a cache of":   func(p *Program) Value { return p.Attention(product8(p), p.Cache(3, 8), Attention{}) },
		"keys of 8 columns and values of 8":     func(p *Program) Value { v := product8(p); p.Store(p.Cache(2, 8), v, v); return v },
		"b is a second shared matrix": func(p *Program) Value {
			p.Shared(NewShared(matrix("a", 8, 8)))
			return p.Embed(p.Shared(NewShared(matrix("b", 8, 8))))
		},
		"sinks of 3 columns for 2 heads": func(p *Program) Value {
			return p.Attention(product8(p), p.Cache(1, 4), Attention{Sinks: p.Weight(matrix("sinks", 1, 3))})
		},
		"Gated of 8 and 4 columns": func(p *Program) Value {
			v := product8(p)
			p.Gated(v, p.MatMul(v, p.Weight(matrix("w", 4, 8)))[0], kernels.SiLU)
			return v
		},
	} {
		p := New("block 3", 8)
		_, err := p.Layer(steps(p))
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, "block 3: ")
	}

	p := New("embedding", 0)
	_, err := p.Layer(p.MatMul(Input, p.Weight(matrix("w", 8, 0)))[0])
	assert.ErrorContains(t, err, "reads an activation that no step has written")
}

func product8(p *Program) Value { return p.MatMul(Input, p.Weight(matrix("w", 8, 8)))[0] }

// passOf is a pass of rows of one sequence on a device.
func passOf(r *kerneltest.Rig, l stage.Layer, rows int) (p *stage.Pass, in, out kernels.Tensor) {
	h := kernels.NewHeader(rows, 1)
	table := h.Table([]int32{0})
	for i := range rows {
		h.Append(int32(i), int32(i), table, true)
	}
	x := make([]float32, rows*64)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	p = &stage.Pass{Queue: r.Q, Header: h, Rows: r.Rows(h), Work: r.Tensor(1, rows*l.Shape().Scratch, nil)}
	return p, r.Tensor(rows, 64, x), r.Tensor(rows, l.Shape().Width, nil)
}

func TestForwardAllocatesNothing(t *testing.T) {
	r := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	p, out := block(64, 4, 2, 16, 128)
	l, err := p.Layer(out)
	require.NoError(t, err)
	runner, err := l.Load(t.Context(), r.Q, stage.Config{MaxRows: 3, Pages: 1, KV: kernels.F32})
	require.NoError(t, err)
	defer func() { require.NoError(t, runner.Close()) }()
	pass, in, result := passOf(r, l, 3)
	r.Run(func(kernels.Queue) {
		assert.Zero(t, testing.AllocsPerRun(20, func() {
			if err := runner.Forward(pass, in, result); err != nil {
				t.Error(err)
			}
		}))
	})
	for _, v := range r.Read(result) {
		require.False(t, v != v, "a NaN: a value was read before it was written")
	}
}

// scarce is a queue on which only so many weights and caches have room.
type scarce struct {
	kernels.Queue
	left *int
}

var errFull = errors.New("full")

func (q scarce) Pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	if *q.left--; *q.left < 0 {
		return nil, errFull
	}
	return q.Queue.Pack(ctx, m)
}

func (q scarce) NewCache(s kernels.CacheSpec) (kernels.Cache, error) {
	if *q.left--; *q.left < 0 {
		return nil, errFull
	}
	return q.Queue.NewCache(s)
}

// What was loaded before the part that fails is freed.
func TestLoadThatFailsLeavesNothing(t *testing.T) {
	r := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	p, out := block(64, 4, 2, 16, 128)
	l, err := p.Layer(out)
	require.NoError(t, err)
	parts := len(p.weights) - 1 + len(p.caches)
	before := r.Q.Device().Allocated()
	for room := range parts + 1 {
		left := room
		runner, err := l.Load(t.Context(), scarce{r.Q, &left}, stage.Config{MaxRows: 3, Pages: 1, KV: kernels.F32})
		if room < parts {
			require.ErrorIs(t, err, errFull)
			require.Nil(t, runner)
		} else {
			require.NoError(t, err)
			require.NoError(t, runner.Close())
		}
		require.Equal(t, before, r.Q.Device().Allocated(), "room for %d", room)
	}
}

// A shared matrix lies once on a device, for as long as a program uses it.
func TestSharedMatrixLiesOnce(t *testing.T) {
	r := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	tokens := NewShared(matrix("tokens", 32, 64))
	embedding, head := New("embedding", 0), New("head", 64)
	first, err := embedding.Layer(embedding.Embed(embedding.Shared(tokens)))
	require.NoError(t, err)
	last, err := head.Layer(head.MatMul(head.Gather(), head.Shared(tokens))[0])
	require.NoError(t, err)
	assert.Equal(t, stage.Shape{Width: 32, Scratch: 64, Outputs: true}, last.Shape())

	config := stage.Config{MaxRows: 3, Pages: 1, KV: kernels.F32}
	cost, err := last.Cost(r.Q.Device().Info(), config)
	require.NoError(t, err)
	assert.Equal(t, "tokens", cost.Shared)

	before := r.Q.Device().Allocated()
	a, err := first.Load(t.Context(), r.Q, config)
	require.NoError(t, err)
	b, err := last.Load(t.Context(), r.Q, config)
	require.NoError(t, err)
	assert.Equal(t, before+cost.Weights, r.Q.Device().Allocated())
	require.NoError(t, a.Close())
	assert.Equal(t, before+cost.Weights, r.Q.Device().Allocated())
	require.NoError(t, b.Close())
	assert.Equal(t, before, r.Q.Device().Allocated())
}

// A head computes on the rows that are wanted alone, and does nothing for none.
func TestHeadOfNoRows(t *testing.T) {
	r := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	p := New("head", 64)
	l, err := p.Layer(p.MatMul(p.Gather(), p.Weight(matrix("w", 32, 64)))[0])
	require.NoError(t, err)
	runner, err := l.Load(t.Context(), r.Q, stage.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, runner.Close()) }()
	pass, in, out := passOf(r, l, 3)
	out.Rows = 0
	r.Run(func(kernels.Queue) { require.NoError(t, runner.Forward(pass, in, out)) })
}
