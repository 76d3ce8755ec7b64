package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// shared is what a test's products hold.
type shared struct {
	n, k  int
	x     []float32
	parts []kernels.Matrix
	exact [][]float64
}

func newShared(rng *rand.Rand, n, k int, types []kernels.Type, rows ...int) *shared {
	s := &shared{n: n, k: k, x: normals(rng, n*k)}
	for i, m := range rows {
		w, exact := matrix(rng, types[i%len(types)], m, k)
		s.parts, s.exact = append(s.parts, w), append(s.exact, exact)
	}
	return s
}

// on computes the products on a rig, in batches of at most chunk rows.
func (s *shared) on(r *rig, chunk int) [][]float32 {
	r.Helper()
	weights := make([]kernels.Weight, len(s.parts))
	for i, m := range s.parts {
		weights[i] = r.pack(m)
	}
	out := make([][]float32, len(s.parts))
	for from := 0; from < s.n; from += chunk {
		n := min(chunk, s.n-from)
		x := r.tensor(n, s.k, s.x[from*s.k:][:n*s.k])
		products := make([]kernels.Product, len(weights))
		for i, w := range weights {
			products[i] = kernels.Product{W: w, Dst: r.tensor(n, w.Rows(), nil)}
		}
		r.run(func(q kernels.Queue) { q.MatMul(x, products) })
		for i, p := range products {
			r.margins(p.Dst)
			out[i] = append(out[i], read(p.Dst)...)
		}
	}
	return out
}

func TestMatMulOfFloatsIsNearTheExactSum(t *testing.T) {
	r := newRig(t, 0)
	rng := newRand(1)
	for _, c := range []struct{ n, k, m int }{{1, 1, 1}, {1, 300, 17}, {3, 257, 16}, {70, 515, 33}, {2, 4096, 5}} {
		s := newShared(rng, c.n, c.k, allTypes[:3], c.m, c.m, c.m, 1)
		for i, got := range s.on(r, s.n) {
			m := s.parts[i].Rows
			for row := range s.n {
				for o := range m {
					sum, size := 0.0, 0.0
					for j := range s.k {
						p := float64(s.x[row*s.k+j]) * s.exact[i][o*s.k+j]
						sum, size = sum+p, size+math.Abs(p)
					}
					require.InDelta(t, sum, got[row*m+o], size*float64(min(s.k, 256)+s.k/256+2)*0x1p-24,
						"%v [%d, %d]·[%d, %d]ᵀ at %d, %d", s.parts[i].Type, s.n, s.k, m, s.k, row, o)
				}
			}
		}
	}
}

// The integer types are exact to the bit: kernels.Queue's comment, spelt out.
// (Of Q4_K and Q6_K package panel's tests do that.)
func TestMatMulOfIntegersIsToTheBit(t *testing.T) {
	r := newRig(t, 0)
	rng := newRand(2)
	for _, c := range []struct{ n, k, m int }{{1, 32, 1}, {2, 96, 17}, {19, 1024, 40}} {
		s := newShared(rng, c.n, c.k, []kernels.Type{kernels.Q8_0, kernels.Q4_0}, c.m, c.m)
		for i, got := range s.on(r, s.n) {
			w := s.parts[i]
			blocks, size := s.k/32, len(w.Data)/(c.m*s.k/32)
			want := make([]float32, 0, len(got))
			for row := range s.n {
				for o := range c.m {
					acc := float32(0)
					for b := range blocks {
						x := s.x[row*s.k+32*b:][:32]
						largest := 0.0
						for _, v := range x {
							largest = max(largest, math.Abs(float64(v)))
						}
						dx := float32(largest) / 127
						block := w.Data[(o*blocks+b)*size:][:size]
						dw := kernels.Float16frombits(binary.LittleEndian.Uint16(block))
						sum := 0
						for j, v := range x {
							q := int(math.RoundToEven(float64(v * (1 / dx))))
							// The exact number over the scale is the file's integer.
							sum += q * int(math.Round(s.exact[i][o*s.k+32*b+j]/float64(dw)))
						}
						acc = float32(float32(sum)*float32(dw*dx)) + acc
					}
					want = append(want, acc)
				}
			}
			sameBits(t, want, got, "%v [%d, %d]", w.Type, c.m, s.k)
		}
	}
}

// The rounding of x is half a step of its block at most.
func TestMatMulOfIntegersIsNearTheExactSum(t *testing.T) {
	r := newRig(t, 0)
	rng := newRand(8)
	for _, c := range []struct{ n, k, m int }{{1, 256, 1}, {3, 1024, 17}, {70, 512, 33}} {
		s := newShared(rng, c.n, c.k, allTypes[3:], c.m, c.m, c.m, c.m)
		for i, got := range s.on(r, s.n) {
			for row := range s.n {
				x := s.x[row*s.k:][:s.k]
				for o := range c.m {
					sum, off := 0.0, 0.0
					for j, w := range s.exact[i][o*s.k:][:s.k] {
						largest := 0.0
						for _, v := range x[j/32*32:][:32] {
							largest = max(largest, math.Abs(float64(v)))
						}
						sum += float64(x[j]) * w
						off += math.Abs(w) * largest * (0.501/127 + 1e-5)
					}
					require.InDelta(t, sum, got[row*c.m+o], off, "%v [%d, %d]·[%d, %d]ᵀ at %d, %d", s.parts[i].Type, s.n, s.k, c.m, s.k, row, o)
				}
			}
		}
	}
}

func TestMatMulHasTheSameBitsHoweverItIsCut(t *testing.T) {
	rigs := oneAndAll(t)
	s := newShared(newRand(3), 67, 1280, allTypes, 130, 16, 50, 200, 31, 120, 33, 1)
	want := s.on(rigs[0], 1)
	for _, r := range rigs {
		for _, chunk := range []int{1, 3, 67} {
			for i, got := range s.on(r, chunk) {
				sameBits(t, want[i], got, "%v, chunks of %d on %d cores", s.parts[i].Type, chunk, len(r.q.Device().Info().Cores))
			}
		}
	}
}

// A row's result doesn't depend on a NaN or an infinity in another.
func TestMatMulKeepsRowsApart(t *testing.T) {
	r := newRig(t, 0)
	s := newShared(newRand(4), 9, 256, allTypes, 20, 20, 20, 20, 20, 20, 20)
	want := s.on(r, 9)
	s.x[4*256+7] = float32(math.NaN())
	for i, got := range s.on(r, 9) {
		for row := range s.n {
			if row != 4 {
				sameBits(t, want[i][row*20:][:20], got[row*20:][:20], "%v row %d", s.parts[i].Type, row)
				continue
			}
			for _, v := range got[row*20:][:20] {
				require.True(t, v != v, "%v: a NaN must come out", s.parts[i].Type)
			}
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, c := range []struct{ n, k, m int }{{1, 64, 64}, {1, 2048, 2048}, {128, 2048, 2048}} {
		for _, typ := range allTypes {
			b.Run(fmt.Sprintf("%v/%dx%dx%d", typ, c.n, c.k, c.m), func(b *testing.B) {
				r := newRig(b, 0)
				m, _ := matrix(newRand(1), typ, c.m, c.k)
				x := r.tensor(c.n, c.k, normals(newRand(2), c.n*c.k))
				products := []kernels.Product{{W: r.pack(m), Dst: r.tensor(c.n, c.m, nil)}}
				r.q.Begin()
				defer r.q.End()
				for b.Loop() {
					r.q.MatMul(x, products)
				}
				b.ReportMetric(float64(c.n*c.k*c.m)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "MAC/ns")
			})
		}
	}
}
