package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

func BenchmarkMatMul(b *testing.B) {
	for _, c := range []struct{ n, k, m int }{{1, 64, 64}, {1, 2048, 2048}, {128, 2048, 2048}, {128, 2048, 8192}, {512, 2048, 8192}, {128, 8192, 2048}, {512, 8192, 2048}} {
		for _, typ := range kernels.WeightTypes() {
			b.Run(fmt.Sprintf("%v/%dx%dx%d", typ, c.n, c.k, c.m), func(b *testing.B) {
				r := cores.Rig(b)
				x := r.Tensor(c.n, c.k, kerneltest.Normals(kerneltest.NewRand(2), c.n*c.k))
				w := r.Pack(kerneltest.Matrix(kerneltest.NewRand(1), typ, c.m, c.k))
				products := []kernels.Product{{W: w, Dst: r.Tensor(c.n, c.m, nil)}}
				r.Q.Begin()
				defer r.Q.End()
				for b.Loop() {
					r.Q.MatMul(x, products)
				}
				b.ReportMetric(float64(c.n*c.k*c.m)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "MAC/ns")
			})
		}
	}
}

// Greedy rows of a small and of a large vocabulary, and their candidates.
func BenchmarkOutput(b *testing.B) {
	for _, c := range []struct{ n, vocab int }{{8, 512}, {1, 128_256}, {64, 128_256}} {
		r := cores.Rig(b)
		x := r.Tensor(c.n, c.vocab, kerneltest.Normals(kerneltest.NewRand(3), c.n*c.vocab))
		best := r.Tensor(c.n, 1, nil)
		best.Type = kernels.I32
		ops := map[string]func(){"ArgMax": func() { r.Q.ArgMax(best, x) }}
		for _, k := range []int{40, 256} {
			ids, values := r.Tensor(c.n, k, nil), r.Tensor(c.n, k, nil)
			ids.Type = kernels.I32
			ops[fmt.Sprint("TopK of ", k)] = func() { r.Q.(kernels.TopKer).TopK(ids, values, x) }
		}
		for name, op := range ops {
			b.Run(fmt.Sprintf("%s/%dx%d", name, c.n, c.vocab), func(b *testing.B) {
				r.Q.Begin()
				defer r.Q.End()
				for b.Loop() {
					op()
				}
			})
		}
	}
}

func BenchmarkNorm(b *testing.B) {
	const n, cols = 64, 4096
	r := cores.Rig(b)
	x, dst := r.Tensor(n, cols, kerneltest.Normals(kerneltest.NewRand(4), n*cols)), r.Tensor(n, cols, nil)
	spec := kernels.NormSpec{Gain: r.Vector(kerneltest.Normals(kerneltest.NewRand(5), cols)), Eps: 1e-5}
	for name, op := range map[string]func(){"RMSNorm": func() { r.Q.RMSNorm(dst, x, spec) }, "LayerNorm": func() { r.Q.LayerNorm(dst, x, spec) }} {
		b.Run(name, func(b *testing.B) {
			r.Q.Begin()
			defer r.Q.End()
			for b.Loop() {
				op()
			}
		})
	}
}

// One row at position 2047, and 128 rows up to there.
func BenchmarkAttention(b *testing.B) {
	slopes := make([]float32, 32)
	for name, spec := range map[string]func(r *kerneltest.Rig) kernels.AttentionSpec{
		"plain":    func(*kerneltest.Rig) kernels.AttentionSpec { return kernels.AttentionSpec{} },
		"window":   func(*kerneltest.Rig) kernels.AttentionSpec { return kernels.AttentionSpec{Window: 512} },
		"soft-cap": func(*kerneltest.Rig) kernels.AttentionSpec { return kernels.AttentionSpec{SoftCap: 50} },
		"slopes":   func(r *kerneltest.Rig) kernels.AttentionSpec { return kernels.AttentionSpec{Slopes: r.Vector(slopes)} },
	} {
		b.Run(name, func(b *testing.B) { benchmarkAttention(b, spec) })
	}
}

func benchmarkAttention(b *testing.B, variant func(r *kerneltest.Rig) kernels.AttentionSpec) {
	for _, typ := range []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0} {
		for _, n := range []int{1, 128} {
			b.Run(fmt.Sprintf("%v/%d", typ, n), func(b *testing.B) {
				r := cores.Rig(b)
				spec := kernels.CacheSpec{Type: typ, Heads: 8, HeadDim: 128, Pages: 64}
				c := r.Cache(spec)
				h := kernels.NewHeader(n, spec.Pages)
				var table []int32
				for p := range spec.Pages {
					table = append(table, int32(p))
				}
				h.Table(table)
				for row := range n {
					h.Append(0, int32(2048-n+row), 0, false)
				}
				q, dst, rows := r.Tensor(n, 4096, kerneltest.Normals(kerneltest.NewRand(1), n*4096)), r.Tensor(n, 4096, nil), r.Rows(h)
				a := variant(r)
				a.Scale = 0.1
				r.Q.Begin()
				defer r.Q.End()
				for b.Loop() {
					r.Q.Attention(dst, q, c, a, rows)
				}
			})
		}
	}
}

// BenchmarkDecode is attention of one row of each of some sequences, whose pages take
// 64 MiB in all and lie anywhere.
func BenchmarkDecode(b *testing.B) {
	for _, typ := range []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("%v/%d", typ, n), func(b *testing.B) {
				r := cores.Rig(b)
				spec := kernels.CacheSpec{Type: typ, Heads: 8, HeadDim: 64, Pages: 1024}
				c := r.Cache(spec)
				mem := c.(*cache).buf.Bytes()
				for i := range mem {
					mem[i] = 1 // memory that was never written is one page of zeros
				}
				h := kernels.NewHeader(n, spec.Pages)
				each := spec.Pages / n
				var pages []int32
				for _, p := range rand.New(rand.NewPCG(6, 7)).Perm(spec.Pages) {
					pages = append(pages, int32(p))
				}
				for row := range n {
					table := h.Table(pages[row*each:][:each])
					h.Append(0, int32(each*kernels.PageTokens-1), table, false)
				}
				q, dst, rows := r.Tensor(n, 2048, kerneltest.Normals(kerneltest.NewRand(1), n*2048)), r.Tensor(n, 2048, nil), r.Rows(h)
				r.Q.Begin()
				defer r.Q.End()
				for b.Loop() {
					r.Q.Attention(dst, q, c, kernels.AttentionSpec{Scale: 0.1}, rows)
				}
				b.ReportMetric(float64(c.Bytes())*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
			})
		}
	}
}
