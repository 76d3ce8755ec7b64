package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// trial is an op on random numbers: what a rig makes of it, what float64 does,
// and the size of each element's terms, which errors are measured by.
type trial struct {
	on         func(r *rig) []float32
	want, size []float64
}

func (c *trial) add(want, size float64) { c.want, c.size = append(c.want, want), append(c.size, size) }

// far returns the largest error of a rig's result.
func (c *trial) far(r *rig) (far float64) {
	r.Helper()
	got := c.on(r)
	require.Equal(r, len(c.want), len(got))
	for i, w := range c.want {
		if off := math.Abs(float64(got[i]) - w); off > 0 || off != off {
			far = max(far, off/c.size[i])
		}
	}
	return far
}

// judged is an op with the error that it may have, and why.
type judged struct {
	op, typ string
	against string
	bound   float64
	trial   func(rng *rand.Rand) trial
}

const ulp = 0x1p-24 // half a unit in the last place of 1, what rounding adds

// between returns a random number from a to b.
func between(rng *rand.Rand, a, b int) int { return a + rng.IntN(b-a+1) }

func ops() (all []judged) {
	for _, typ := range allTypes {
		all = append(all, judged{"Embed", typ.String(), "the number", 0, func(rng *rand.Rand) trial { return embedTrial(rng, typ) }})
	}
	all = append(all,
		// Up to 3 columns a thread and 8 halvings are summed under the root, and 5 more roundings follow.
		judged{"RMSNorm", "F32", "the result", (11./2 + 5) * ulp, normTrial},
		judged{"RoPE", "F32", "abs a + abs b of a pair", 2e-7 + 2*ulp, ropeTrial},
		judged{"SwiGLU", "F32", "the result", 8 * ulp, swigluTrial},
		judged{"Add", "F32", "the result", ulp, addTrial})
	for _, typ := range allTypes {
		if !typ.Quantized() {
			// A segment of 256 columns, up to 3 of them, and without FMA a product each.
			all = append(all, judged{"MatMul", typ.String(), "Σ abs(w·x)", (256 + 3 + 1) * ulp,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, false) }})
			continue
		}
		// Up to 24 blocks, each of 5 roundings, and their sums.
		all = append(all,
			judged{"MatMul", typ.String(), "Σ abs(w·x), x rounded to int8", (24 + 3 + 5) * ulp,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, true) }},
			judged{"MatMul", typ.String(), "Σ abs(w)·max(abs x) a block, x as it is", 1./254 + 40*ulp,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, false) }})
	}
	for _, typ := range cacheTypes {
		// A score of up to 128 random terms is off by about √128 roundings, and its weight by as much. This
		// is 5 times that; the worst that could be is far more, of terms that all round one way.
		all = append(all, judged{"Attention", typ.String() + " pages", "Σ p·abs(v)", 64 * ulp,
			func(rng *rand.Rand) trial { return attentionTrial(rng, typ) }})
	}
	return all
}

// TestErrors prints the largest error of every op and type on a GPU and on the
// CPU's portable kernels, which have the same bound.
func TestErrors(t *testing.T) {
	gpu, cpu := onGPU(t), twin(t)
	var table strings.Builder
	table.WriteString("\n| op | type | relative to | bound | GPU | CPU twin |\n|---|---|---|---|---|---|\n")
	rng := newRand(100)
	for _, o := range ops() {
		var ours, theirs float64
		for range 3 {
			c := o.trial(rng)
			ours, theirs = max(ours, c.far(gpu)), max(theirs, c.far(cpu))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %.1e | %.1e | %.1e |\n", o.op, o.typ, o.against, o.bound, ours, theirs)
		require.LessOrEqual(t, ours, o.bound, "%s of %s on a GPU", o.op, o.typ)
		require.LessOrEqual(t, theirs, o.bound, "%s of %s on a CPU", o.op, o.typ)
	}
	t.Log(table.String())
}

func embedTrial(rng *rand.Rand, typ kernels.Type) (c trial) {
	elems, _ := typ.Block()
	n, vocab, cols := between(rng, 1, 9), between(rng, 2, 50), elems*between(rng, 1, 400/elems+1)
	m := matrix(rng, typ, vocab, cols)
	numbers := exact(m)
	var h kernels.Header
	for range n {
		token := rng.IntN(vocab)
		h.Append(int32(token), 0, 0, false)
		for _, v := range numbers[token*cols:][:cols] {
			c.add(float64(float32(v)), math.Abs(v))
		}
	}
	c.on = func(r *rig) []float32 {
		dst, w, rows := r.tensor(n, cols, nil), r.pack(m), r.rows(&h)
		r.run(func(q kernels.Queue) { q.Embed(dst, w, rows) })
		return r.read(dst)
	}
	return c
}

func normTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 9), between(rng, 1, 700)
	x, gain := normals(rng, n*cols), normals(rng, cols)
	for _, w := range normed(x, gain, 1e-5) {
		c.add(w, math.Abs(w))
	}
	c.on = func(r *rig) []float32 {
		in, out, g := r.tensor(n, cols, x), r.tensor(n, cols, nil), r.vector(gain)
		r.run(func(q kernels.Queue) { q.RMSNorm(out, in, g, 1e-5) })
		return r.read(out)
	}
	return c
}

func ropeTrial(rng *rand.Rand) (c trial) {
	pairs := between(rng, 1, 64)
	turn := rotation{n: between(rng, 1, 9), heads: between(rng, 1, 4), dim: 2*pairs + rng.IntN(3), split: rng.IntN(2) == 0}
	turn.x = normals(rng, turn.n*turn.heads*turn.dim)
	positions := make([]int32, turn.n)
	for i := range positions {
		positions[i] = rng.Int32N(1 << 24)
	}
	turn.at = func(row int) int32 { return positions[row] }
	for range pairs {
		turn.freq = append(turn.freq, float32(math.Pow(10000, -rng.Float64())))
	}
	c.want, c.size = turn.exact()
	c.on = func(r *rig) []float32 { return turn.on(r, 0, turn.n) }
	return c
}

func swigluTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 5), between(rng, 1, 900)
	gate, up := normals(rng, n*cols), normals(rng, n*cols)
	for i := range gate {
		gate[i] *= 10
	}
	for _, w := range swiglued(gate, up) {
		c.add(w, max(math.Abs(w), 1e-30))
	}
	c.on = func(r *rig) []float32 {
		g, u, dst := r.tensor(n, cols, gate), r.tensor(n, cols, up), r.tensor(n, cols, nil)
		r.run(func(q kernels.Queue) { q.SwiGLU(dst, g, u) })
		return r.read(dst)
	}
	return c
}

func addTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 5), between(rng, 1, 900)
	a, b := normals(rng, n*cols), normals(rng, n*cols)
	for i := range a {
		w := float64(a[i]) + float64(b[i])
		c.add(w, math.Abs(w))
	}
	c.on = func(r *rig) []float32 {
		dst, x := r.tensor(n, cols, a), r.tensor(n, cols, b)
		r.run(func(q kernels.Queue) { q.Add(dst, x) })
		return r.read(dst)
	}
	return c
}

// productTrial is a MatMul; of integer weights with x as the kernels round it, or
// as it is.
func productTrial(rng *rand.Rand, typ kernels.Type, roundX bool) trial {
	elems, _ := typ.Block()
	s := newShared(rng, between(rng, 1, 40), elems*between(rng, 1, 700/elems+1), []kernels.Type{typ}, between(rng, 1, 70))
	c := trial{on: func(r *rig) []float32 { return s.on(r, s.n)[0] }}
	w, m := s.weights[0], s.weights[0].Rows
	numbers, each := exact(w), len(w.Data)/m
	for row := range s.n {
		x := s.x[row*s.k:][:s.k]
		for o := range m {
			sum, size := dot(x, numbers[o*s.k:])
			if typ.Quantized() {
				sum, size = blockwise(typ, x, w.Data[o*each:][:each], numbers[o*s.k:], roundX)
			}
			c.add(sum, max(size, 1e-30))
		}
	}
	return c
}

// blockwise is a product with an integer weight, and the size of its terms.
func blockwise(typ kernels.Type, x []float32, w []byte, numbers []float64, roundX bool) (sum, size float64) {
	for b, p := range parts(typ, w) {
		r, largest, weights := round(x[b*block:][:block]), 0.0, 0.0
		for i := range block {
			v := float64(x[b*block+i])
			largest, weights = max(largest, math.Abs(v)), weights+math.Abs(numbers[b*block+i])
			if roundX {
				v = float64(r.d) * float64(r.q[i])
				scaled := float64(p.d) * float64(p.scale[i/16]) * float64(p.q[i])
				size += math.Abs(v) * (math.Abs(scaled) + math.Abs(float64(p.dmin)*float64(p.minimum)))
			}
			sum += v * numbers[b*block+i]
		}
		if !roundX {
			size += largest * weights
		}
	}
	return sum, size
}

func attentionTrial(rng *rand.Rand, typ kernels.Type) (c trial) {
	dim := between(rng, 1, 128)
	if typ == kernels.Q8_0 {
		dim = 32 * between(rng, 1, 4)
	}
	d := newDialogue(rng, typ, between(rng, 1, 2), between(rng, 1, 4), dim, between(rng, 1, 80), between(rng, 1, 80))
	seed := rng.Uint64()
	for s, n := range d.lengths {
		for row := range n {
			for head := range d.spec.Heads {
				keys, values, sizes := make([][]float64, n), make([][]float64, n), make([][]float64, n)
				for p := range row + 1 {
					at := (p*d.spec.Heads + head) * dim
					keys[p], values[p] = stored(typ, d.k[s][at:][:dim]), stored(typ, d.v[s][at:][:dim])
					for _, v := range values[p] {
						sizes[p] = append(sizes[p], math.Abs(v))
					}
				}
				for g := range d.group {
					q := d.q[s][((row*d.spec.Heads+head)*d.group+g)*dim:][:dim]
					want := attend(q, keys[:row+1], values, float64(d.scale))
					for i, size := range attend(q, keys[:row+1], sizes, float64(d.scale)) {
						c.add(want[i], size)
					}
				}
			}
		}
	}
	c.on = func(r *rig) (all []float32) {
		out, _, _ := d.on(r, 33, newRand(seed))
		for _, o := range out {
			all = append(all, o...)
		}
		return all
	}
	return c
}

// stored is a key or value of a head as a cache of the type has it.
func stored(typ kernels.Type, x []float32) (out []float64) {
	for i, v := range x {
		switch typ {
		case kernels.F16:
			v = kernels.Float16frombits(kernels.Float16bits(v))
		case kernels.Q8_0:
			largest := float32(0)
			for _, o := range x[i/block*block:][:block] {
				largest = max(largest, o, -o)
			}
			step := kernels.Float16frombits(kernels.Float16bits(largest / 127))
			v = step * float32(max(-127, min(127, math.RoundToEven(float64(v*(1/step))))))
		}
		out = append(out, float64(v))
	}
	return out
}
