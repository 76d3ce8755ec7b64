package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// shared is what a test's products hold.
type shared struct {
	n, k    int
	x       []float32
	weights []kernels.Matrix
}

func newShared(rng *rand.Rand, n, k int, types []kernels.Type, rows ...int) *shared {
	s := &shared{n: n, k: k, x: normals(rng, n*k)}
	for i, m := range rows {
		s.weights = append(s.weights, matrix(rng, types[i%len(types)], m, k))
	}
	return s
}

// on computes the products on a rig, in batches of at most chunk rows.
func (s *shared) on(r *rig, chunk int) [][]float32 {
	r.Helper()
	weights := make([]kernels.Weight, len(s.weights))
	for i, m := range s.weights {
		weights[i] = r.pack(m)
	}
	out := make([][]float32, len(weights))
	for from := 0; from < s.n; from += chunk {
		n := min(chunk, s.n-from)
		x := r.tensorAt(margin+1, n, s.k, s.x[from*s.k:][:n*s.k]) // activations may lie anywhere
		products := make([]kernels.Product, len(weights))
		for i, w := range weights {
			products[i] = kernels.Product{W: w, Dst: r.tensor(n, w.Rows(), nil)}
		}
		r.run(func(q kernels.Queue) { q.MatMul(x, products) })
		for i, p := range products {
			out[i] = append(out[i], r.read(p.Dst)...)
		}
	}
	return out
}

func TestMatMulOfFloatsIsNearTheExactSum(t *testing.T) {
	r := onGPU(t)
	rng := newRand(1)
	for _, c := range []struct{ n, k, m int }{{1, 1, 1}, {1, 300, 17}, {3, 257, 16}, {37, 515, 67}, {2, 1024, 5}, {5, 17001, 2}} {
		s := newShared(rng, c.n, c.k, allTypes[:3], c.m, c.m, c.m, 1)
		for i, got := range s.on(r, s.n) {
			w, m := exact(s.weights[i]), s.weights[i].Rows
			for row := range s.n {
				for o := range m {
					sum, size := dot(s.x[row*s.k:][:s.k], w[o*s.k:])
					// Of a segment's terms each rounds once, and each segment's sum once.
					require.InDelta(t, sum, got[row*m+o], size*float64(min(s.k, segment)+s.k/segment+2)*0x1p-24,
						"%v [%d, %d]·[%d, %d]ᵀ at %d, %d", s.weights[i].Type, s.n, s.k, m, s.k, row, o)
				}
			}
		}
	}
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
	q   [32]int
	d   float32
	sum int
}

func round(x []float32) (r rounded) {
	largest := float32(0)
	for _, v := range x {
		largest = max(largest, v, -v)
	}
	if r.d = largest / 127; r.d == 0 {
		return r
	}
	inverse := 1 / r.d
	for i, v := range x {
		r.q[i] = int(math.RoundToEven(float64(v * inverse)))
		r.sum += r.q[i]
	}
	return r
}

// add is a block's contribution to a product, in the order that the package's
// comment gives. A conversion to float32 keeps Go from fusing what is in it.
func (r *rounded) add(typ kernels.Type, p *part, acc float32) float32 {
	var s [2]int
	for i, q := range p.q {
		s[i/16] += q * r.q[i]
	}
	var c float32
	switch typ {
	case kernels.Q8_0, kernels.Q4_0:
		c = float32(float32(s[0]+s[1]) * float32(p.d*r.d))
	case kernels.Q4_K:
		c = float32(float32(p.d*float32(p.scale[0])) * float32(s[0]+s[1]))
		c -= float32(float32(p.dmin*float32(p.minimum)) * float32(r.sum))
		c = float32(c * r.d)
	case kernels.Q6_K:
		c = float32(float32(p.d*float32(p.scale[0]*s[0]+p.scale[1]*s[1])) * r.d)
	}
	return acc + c
}

// inOrder is a product of one row by the package's order of sums.
func inOrder(typ kernels.Type, x []float32, w []byte) float32 {
	all := parts(typ, w)
	total := float32(0)
	for from := 0; from < len(all); from += segment / block {
		acc := float32(0)
		for b := from; b < min(from+segment/block, len(all)); b++ {
			r := round(x[b*block:][:block])
			acc = r.add(typ, &all[b], acc)
		}
		if from == 0 {
			total = acc
		} else {
			total += acc
		}
	}
	return total
}

// The integer types are exact to the bit: the package's comment, spelt out.
func TestMatMulOfIntegersIsToTheBit(t *testing.T) {
	r := onGPU(t)
	rng := newRand(2)
	for _, c := range []struct{ n, k, m int }{{1, 32, 1}, {2, 96, 17}, {7, 288, 40}, {1, 256, 33}, {19, 1024, 70}, {5, 17152, 3}} {
		types := allTypes[3:]
		if c.k%256 != 0 {
			types = allTypes[3:5]
		}
		rows := make([]int, len(types))
		for i := range rows {
			rows[i] = c.m
		}
		s := newShared(rng, c.n, c.k, types, rows...)
		for i, got := range s.on(r, s.n) {
			w := s.weights[i]
			var want []float32
			for row := range s.n {
				for o := range c.m {
					each := len(w.Data) / c.m
					want = append(want, inOrder(w.Type, s.x[row*s.k:][:s.k], w.Data[o*each:][:each]))
				}
			}
			sameBits(t, want, got, "%v [%d, %d]·[%d]", w.Type, c.n, c.k, c.m)
		}
	}
}

// A row's products have the same bits alone, among few rows and in tiles.
func TestMatMulHasTheSameBitsHoweverItIsCut(t *testing.T) {
	r := onGPU(t)
	s := newShared(newRand(3), 70, 768, allTypes, 70, 32, 50, 65, 31, 33, 64, 1)
	want := s.on(r, 1)
	for _, chunk := range []int{3, 5, 33, 70} {
		for i, got := range s.on(r, chunk) {
			sameBits(t, want[i], got, "%v, chunks of %d", s.weights[i].Type, chunk)
		}
	}
	// More segments than a block adds up at once.
	long := newShared(newRand(8), 6, 17152, allTypes, 3, 3, 3, 3, 3, 3, 3)
	want = long.on(r, 1)
	for i, got := range long.on(r, 6) {
		sameBits(t, want[i], got, "%v of %d columns", long.weights[i].Type, long.k)
	}
	ragged := newShared(newRand(4), 70, 416, allTypes[:5], 5, 32, 50, 65, 31)
	want = ragged.on(r, 1)
	for _, chunk := range []int{4, 70} {
		for i, got := range ragged.on(r, chunk) {
			sameBits(t, want[i], got, "%v, chunks of %d", ragged.weights[i].Type, chunk)
		}
	}
}

// A row's result doesn't depend on a NaN or an infinity in another.
func TestMatMulKeepsRowsApart(t *testing.T) {
	r := onGPU(t)
	for _, bad := range []float32{nan, float32(math.Inf(-1))} {
		s := newShared(newRand(5), 9, 256, allTypes, 20, 20, 20, 20, 20, 20, 20)
		for _, chunk := range []int{3, 9} {
			want := s.on(r, chunk)
			was := s.x[4*256+7]
			s.x[4*256+7] = bad
			for i, got := range s.on(r, chunk) {
				for row := range s.n {
					if row != 4 {
						sameBits(t, want[i][row*20:][:20], got[row*20:][:20], "%v row %d", s.weights[i].Type, row)
						continue
					}
					for _, v := range got[row*20:][:20] {
						require.False(t, v-v == 0, "%v: what is no number must come out so, not as %v", s.weights[i].Type, v)
					}
				}
			}
			s.x[4*256+7] = was
		}
	}
}

// Blocks of zeros, and of numbers so small that their scale has no inverse.
func TestMatMulOfTinyActivations(t *testing.T) {
	r := onGPU(t)
	s := newShared(newRand(6), 2, 256, allTypes[3:], 9, 9, 9, 9)
	clear(s.x[:64])
	for i := range 32 {
		s.x[128+i] *= 0x1p-140
	}
	for i, got := range s.on(r, 2) {
		w := s.weights[i]
		for j, v := range got {
			each := len(w.Data) / 9
			x := append([]float32(nil), s.x[j/9*256:][:256]...)
			if j < 9 {
				clear(x[128:160]) // 1/d is infinite
			}
			require.Equal(t, inOrder(w.Type, x, w.Data[j%9*each:][:each]), v, "%v", w.Type)
		}
	}
}
