package kerneltest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// MatMul tests products with weights of every type.
func MatMul(t *testing.T, b Backend) {
	b.run(t,
		part{"OfFloatsIsNearTheExactSum", floatsAreNear},
		part{"OfIntegersIsToTheBit", integersAreToTheBit},
		part{"OfIntegersIsNearTheExactSum", integersAreNear},
		part{"OfTinyActivations", tinyActivations},
		part{"HasTheSameBitsHoweverItIsCut", productsAreCut},
		part{"KeepsRowsApart", productsKeepRowsApart})
}

func floatsAreNear(t *testing.T, b Backend) {
	const segment = 256 // columns that are summed on their own, whatever the backend
	r := b.Rig(t)
	rng := NewRand(1)
	for _, c := range []struct{ n, k, m int }{{1, 1, 1}, {1, 300, 17}, {3, 257, 16}, {70, 515, 67}, {2, 4096, 5}, {5, 17001, 2}} {
		s := newShared(rng, c.n, c.k, b.floats(), c.m, c.m, c.m, 1)
		for i, got := range s.on(r, s.n) {
			w, m, x := Exact(s.weights[i]), s.weights[i].Rows, s.x
			if s.weights[i].Type == kernels.BF16 && m > 1 && r.roundsBF16() {
				x = roundedBF16(x)
			}
			for row := range s.n {
				for o := range m {
					sum, size := dot(x[row*s.k:][:s.k], w[o*s.k:])
					// Of a segment's terms each rounds once, and each segment's sum once.
					require.InDelta(t, sum, got[row*m+o], size*float64(min(s.k, segment)+s.k/segment+2)*ulp,
						"%v [%d, %d]·[%d, %d]ᵀ at %d, %d", s.weights[i].Type, s.n, s.k, m, s.k, row, o)
				}
			}
		}
	}
}

// roundsBF16 says whether products with BF16 weights round x to BF16: the SIMD level
// says so. Those with a single row, which is kept as F32, don't.
func (r *Rig) roundsBF16() bool { return r.Q.Device().Info().SIMD == "avx512-bf16" }

// roundedBF16 returns x rounded to BF16, half to even.
func roundedBF16(x []float32) []float32 {
	rounded := make([]float32, len(x))
	for i, v := range x {
		if v == 0 {
			continue
		}
		unit := math.Ldexp(1, math.Ilogb(float64(v))-7)
		rounded[i] = float32(math.RoundToEven(float64(v)/unit) * unit)
	}
	return rounded
}

// The integer types are exact to the bit: the comment of kernels.Queue, or of the
// backend, spelt out.
func integersAreToTheBit(t *testing.T, b Backend) {
	r := b.Rig(t)
	rng := NewRand(2)
	for _, c := range []struct{ n, k, m int }{{1, 32, 1}, {2, 96, 17}, {7, 288, 40}, {1, 256, 33}, {19, 1024, 70}, {5, 17152, 3}} {
		types := b.integers(c.k)
		s := newShared(rng, c.n, c.k, types, each(types, c.m)...)
		for i, got := range s.on(r, s.n) {
			SameBits(t, s.inOrder(i, b.Segment), got, "%v [%d, %d]·[%d]", s.weights[i].Type, c.n, c.k, c.m)
		}
	}
}

// The rounding of x is half a step of its block at most.
func integersAreNear(t *testing.T, b Backend) {
	r := b.Rig(t)
	rng := NewRand(8)
	for _, c := range []struct{ n, k, m int }{{1, 256, 1}, {3, 1024, 17}, {70, 512, 33}} {
		s := newShared(rng, c.n, c.k, b.integers(c.k), each(b.integers(c.k), c.m)...)
		for i, got := range s.on(r, s.n) {
			numbers := Exact(s.weights[i])
			for row := range s.n {
				x := s.x[row*s.k:][:s.k]
				for o := range c.m {
					sum, off := 0.0, 0.0
					for from := 0; from < s.k; from += block {
						most := float64(largest(x[from:][:block]))
						for j, w := range numbers[o*s.k+from:][:block] {
							sum += float64(x[from+j]) * w
							off += math.Abs(w) * most * (0.501/127 + 1e-5)
						}
					}
					require.InDelta(t, sum, got[row*c.m+o], off, "%v [%d, %d]·[%d, %d]ᵀ at %d, %d", s.weights[i].Type, s.n, s.k, c.m, s.k, row, o)
				}
			}
		}
	}
}

// Blocks of zeros, and of numbers so small that their scale has no inverse.
func tinyActivations(t *testing.T, b Backend) {
	r := b.Rig(t)
	s := newShared(NewRand(6), 2, 256, b.integers(256), each(b.integers(256), 9)...)
	clear(s.x[:64])
	for i := range 32 {
		s.x[128+i] *= 0x1p-140
	}
	got := s.on(r, 2)
	clear(s.x[128:160])
	for i := range got {
		SameBits(t, s.inOrder(i, b.Segment), got[i], "%v", s.weights[i].Type)
	}
}

// uneven returns a number of rows for each type, which fill panels and don't.
func uneven(b Backend) []int {
	rows := each(b.types(), 0)
	for i := range rows {
		rows[i] = []int{b.fewer(130, 70), 32, 50, b.fewer(200, 65), 31, b.fewer(120, 33), 64, 1}[i%8]
	}
	return rows
}

// A row's products have the same bits alone, among few rows and in tiles.
func productsAreCut(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	for _, c := range []struct {
		s      *shared
		chunks []int
	}{
		{newShared(NewRand(3), 70, b.fewer(1280, 768), b.types(), uneven(b)...), []int{3, 5, 33, 70}},
		// More segments than a block adds up at once.
		{newShared(NewRand(8), 6, 17152, b.types(), each(b.types(), 3)...), []int{6}},
		{newShared(NewRand(4), 70, 416, slices.Concat(b.floats(), b.integers(416)), 5, 32, 50, 65, 31, 17, 40, 33, 16), []int{4, 70}},
	} {
		want := c.s.on(rigs[0], 1)
		for i, r := range rigs {
			chunks := c.chunks
			if i > 0 {
				chunks = append([]int{1}, chunks...)
			}
			for _, chunk := range chunks {
				for i, got := range c.s.on(r, chunk) {
					SameBits(t, want[i], got, "%v of %d columns, chunks of %d on %s", c.s.weights[i].Type, c.s.k, chunk, r.Q.Device().Info().Name)
				}
			}
		}
	}
}

// A row's result doesn't depend on a NaN or an infinity in another.
func productsKeepRowsApart(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, bad := range []float32{NaN, -inf} {
		s := newShared(NewRand(5), 9, 256, b.types(), each(b.types(), 20)...)
		for _, chunk := range []int{3, 9} {
			want := s.on(r, chunk)
			was := s.x[4*256+7]
			s.x[4*256+7] = bad
			for i, got := range s.on(r, chunk) {
				for row := range s.n {
					if row != 4 {
						SameBits(t, want[i][row*20:][:20], got[row*20:][:20], "%v row %d", s.weights[i].Type, row)
						continue
					}
					for _, v := range got[row*20:][:20] {
						require.False(t, v-v == 0, "%v: what is no number must come out so, not as %v", s.weights[i].Type, v)
						require.True(t, v != v || bad == bad, "%v: a NaN must come out", s.weights[i].Type)
					}
				}
			}
			s.x[4*256+7] = was
		}
	}
}
