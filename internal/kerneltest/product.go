package kerneltest

import (
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

// shared is products that share their left side.
type shared struct {
	n, k    int
	x       []float32
	weights []kernels.Matrix
}

// newShared has a weight of each number of rows, the types taking turns.
func newShared(rng *rand.Rand, n, k int, types []kernels.Type, rows ...int) *shared {
	s := &shared{n: n, k: k, x: Normals(rng, n*k)}
	for i, m := range rows {
		s.weights = append(s.weights, Matrix(rng, types[i%len(types)], m, k))
	}
	return s
}

// on computes the products on a rig, in batches of at most chunk rows.
func (s *shared) on(r *Rig, chunk int) [][]float32 {
	r.Helper()
	weights := make([]kernels.Weight, len(s.weights))
	for i, m := range s.weights {
		weights[i] = r.Pack(m)
	}
	out := make([][]float32, len(weights))
	for from := 0; from < s.n; from += chunk {
		n := min(chunk, s.n-from)
		x := r.TensorAt(Margin+1, n, s.k, s.x[from*s.k:][:n*s.k]) // activations may lie anywhere
		products := make([]kernels.Product, len(weights))
		for i, w := range weights {
			products[i] = kernels.Product{W: w, Dst: r.Tensor(n, w.Rows(), nil)}
		}
		r.Run(func(q kernels.Queue) { q.MatMul(x, products) })
		for i, p := range products {
			out[i] = append(out[i], r.Read(p.Dst)...)
		}
	}
	return out
}

// inOrder is all of product i with an integer weight, in the order that package
// kernels gives.
func (s *shared) inOrder(i, segment int) (want []float32) {
	w := s.weights[i]
	each := len(w.Data) / w.Rows
	for row := range s.n {
		for o := range w.Rows {
			want = append(want, inOrder(w.Type, s.x[row*s.k:][:s.k], w.Data[o*each:][:each], segment))
		}
	}
	return want
}

// dot is Σ x·w and Σ |x·w|.
func dot(x []float32, w []float64) (sum, size float64) {
	for i, v := range x {
		p := float64(v) * w[i]
		sum, size = sum+p, size+math.Abs(p)
	}
	return sum, size
}

// rounded is a block of 32 activations as the integer products see it.
type rounded struct {
	q   [block]int
	d   float32
	sum [2]int // of the halves
}

func round(x []float32) (r rounded) {
	r.d = largest(x) / 127
	inverse := 1 / r.d
	if inverse > math.MaxFloat32 {
		return r // all is 0, or so small that the scale has no inverse
	}
	for i, v := range x {
		r.q[i] = int(math.RoundToEven(float64(v * inverse)))
		r.sum[i/16] += r.q[i]
	}
	return r
}

// largest is max|x|.
func largest(x []float32) (m float32) {
	for _, v := range x {
		m = max(m, v, -v)
	}
	return m
}

// add is a block's contribution to a product, in the order that the package's
// comment gives. A conversion to float32 keeps Go from fusing what is in it.
func (r *rounded) add(p *weightBlock, acc float32) float32 {
	var s [2]int
	for i, q := range p.q {
		s[i/16] += q * r.q[i]
	}
	both, all := float32(s[0]+s[1]), r.sum[0]+r.sum[1]
	eighth := float32(p.dmin / 8)
	switch f := p.form; {
	case f.Scales == blocks.TwoFloats:
		c := float32(p.d[0]*float32(s[0])) + float32(p.d[1]*float32(s[1]))
		return acc + float32(c*r.d)
	case f.Scales.Halves():
		c := float32(p.d[0] * float32(p.scale[0]*s[0]+p.scale[1]*s[1]))
		if f.HasMinimum() {
			c += float32(eighth * float32(-8*(p.minimum[0]*r.sum[0]+p.minimum[1]*r.sum[1])))
		}
		return acc + float32(c*r.d)
	case f.HasMinimum():
		c := float32(float32(p.d[0]*float32(p.scale[0])) * both)
		c += float32(float32(eighth*float32(p.minimum[0])) * float32(-8*all))
		return acc + float32(c*r.d)
	}
	return acc + float32(both*float32(float32(p.d[0]*float32(p.scale[0]))*r.d))
}

// inOrder is a product of one row by the order of sums, in segments of so many columns
// (0: all) whose sums are added in order.
func inOrder(typ kernels.Type, x []float32, w []byte, segment int) float32 {
	all := blocksOf(typ, w)
	if segment == 0 {
		segment = len(x)
	}
	total := float32(0)
	for from := 0; from < len(all); from += segment / block {
		acc := float32(0)
		for b := from; b < min(from+segment/block, len(all)); b++ {
			r := round(x[b*block:][:block])
			acc = r.add(&all[b], acc)
		}
		if from == 0 {
			total = acc
		} else {
			total += acc
		}
	}
	return total
}
