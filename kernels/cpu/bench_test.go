package cpu

import (
	"fmt"
	"testing"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

func BenchmarkMatMul(b *testing.B) {
	for _, c := range []struct{ n, k, m int }{{1, 64, 64}, {1, 2048, 2048}, {128, 2048, 2048}} {
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

// One row at position 2047, and 128 rows up to there.
func BenchmarkAttention(b *testing.B) {
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
				r.Q.Begin()
				defer r.Q.End()
				for b.Loop() {
					r.Q.Attention(dst, q, c, kernels.AttentionSpec{Scale: 0.1}, rows)
				}
			})
		}
	}
}
