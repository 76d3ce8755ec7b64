package kerneltest

import (
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

func embedTrial(rng *rand.Rand, typ kernels.Type) (c trial) {
	elems, _ := typ.Block()
	n, vocab, cols := between(rng, 1, 9), between(rng, 2, 50), elems*between(rng, 1, 400/elems+1)
	m := Matrix(rng, typ, vocab, cols)
	numbers := Exact(m)
	var tokens []int32
	for range n {
		token := rng.IntN(vocab)
		tokens = append(tokens, int32(token))
		for _, v := range numbers[token*cols:][:cols] {
			c.add(float64(float32(v)), math.Abs(v))
		}
	}
	c.on = func(r *Rig) []float32 { return embed(r, r.Pack(m), tokens) }
	return c
}

func normTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 9), between(rng, 1, 700)
	x, gain := Normals(rng, n*cols), Normals(rng, cols)
	for _, w := range normed(x, gain, nil, 1e-5) {
		c.add(w, math.Abs(w))
	}
	c.on = func(r *Rig) []float32 {
		in, out, g := r.Tensor(n, cols, x), r.Tensor(n, cols, nil), r.Vector(gain)
		r.Run(func(q kernels.Queue) { q.RMSNorm(out, in, kernels.NormSpec{Gain: g, Eps: 1e-5}) })
		return r.Read(out)
	}
	return c
}

func ropeTrial(rng *rand.Rand) (c trial) {
	pairs := between(rng, 1, 64)
	turn := Rotation{N: between(rng, 1, 9), Heads: between(rng, 1, 4), Dim: 2*pairs + rng.IntN(3), Split: rng.IntN(2) == 0}
	turn.X = Normals(rng, turn.N*turn.Heads*turn.Dim)
	positions := make([]int32, turn.N)
	for i := range positions {
		positions[i] = rng.Int32N(1 << 24)
	}
	turn.At = func(row int) int32 { return positions[row] }
	for range pairs {
		turn.Freq = append(turn.Freq, float32(math.Pow(10000, -rng.Float64())))
	}
	c.want, c.size = turn.exact()
	c.on = func(r *Rig) []float32 { return turn.On(r, 0, turn.N) }
	return c
}

func gatedTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 5), between(rng, 1, 900)
	gate, up := Normals(rng, n*cols), Normals(rng, n*cols)
	for i := range gate {
		gate[i] *= 10
	}
	for _, w := range gatedBy(kernels.SiLU, gate, up) {
		c.add(w, max(math.Abs(w), 1e-30))
	}
	c.on = func(r *Rig) []float32 {
		g, u, dst := r.Tensor(n, cols, gate), r.Tensor(n, cols, up), r.Tensor(n, cols, nil)
		r.Run(func(q kernels.Queue) { q.Gated(dst, g, u, kernels.SiLU) })
		return r.Read(dst)
	}
	return c
}

func addTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 5), between(rng, 1, 900)
	a, b := Normals(rng, n*cols), Normals(rng, n*cols)
	for i := range a {
		w := float64(a[i]) + float64(b[i])
		c.add(w, math.Abs(w))
	}
	c.on = func(r *Rig) []float32 {
		dst, x := r.Tensor(n, cols, a), r.Tensor(n, cols, b)
		r.Run(func(q kernels.Queue) { q.Add(dst, x) })
		return r.Read(dst)
	}
	return c
}

// productTrial is a MatMul; of integer weights with x as the kernels round it, or
// as it is.
func productTrial(rng *rand.Rand, typ kernels.Type, roundX bool) trial {
	elems, _ := typ.Block()
	s := newShared(rng, between(rng, 1, 40), elems*between(rng, 1, 700/elems+1), []kernels.Type{typ}, between(rng, 1, 70))
	c := trial{on: func(r *Rig) []float32 { return s.on(r, s.n)[0] }}
	w, m := s.weights[0], s.weights[0].Rows
	numbers, each := Exact(w), len(w.Data)/m
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
	for b, p := range blocksOf(typ, w) {
		r, largest, weights := round(x[b*block:][:block]), 0.0, 0.0
		for i := range block {
			v := float64(x[b*block+i])
			largest, weights = max(largest, math.Abs(v)), weights+math.Abs(numbers[b*block+i])
			if roundX {
				v = float64(r.d) * float64(r.q[i])
				scaled, least := p.exact(i)
				size += math.Abs(v) * (math.Abs(scaled) + math.Abs(least))
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
		dim = block * between(rng, 1, 4)
	}
	d := NewDialogue(rng, typ, between(rng, 1, 2), between(rng, 1, 4), dim, between(rng, 1, 80), between(rng, 1, 80))
	seed := rng.Uint64()
	for s, n := range d.lengths {
		width := d.spec.Heads * d.group * dim
		want, size := make([]float64, n*width), make([]float64, n*width)
		for head := range d.spec.Heads {
			keys, values := storedAll(typ, d.head(d.K[s], head)), storedAll(typ, d.head(d.V[s], head))
			sizes := sizesOf(values)
			d.each(s, head, func(q []float32, at, row int) {
				copy(want[at:], d.variant.attend(q, keys[:row+1], values, d.queryHead(at), float64(d.scale)))
				copy(size[at:], d.variant.attend(q, keys[:row+1], sizes, d.queryHead(at), float64(d.scale)))
			})
		}
		c.want, c.size = append(c.want, want...), append(c.size, size...)
	}
	c.on = func(r *Rig) (all []float32) {
		out, _, _ := d.On(r, 33, NewRand(seed))
		for _, o := range out {
			all = append(all, o...)
		}
		return all
	}
	return c
}

// sizesOf are the absolute values.
func sizesOf(x [][]float64) (all [][]float64) {
	for _, row := range x {
		var sizes []float64
		for _, v := range row {
			sizes = append(sizes, math.Abs(v))
		}
		all = append(all, sizes)
	}
	return all
}
