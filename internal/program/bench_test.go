package program

import (
	"testing"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// idle is a queue whose ops do nothing.
type idle struct{ kernels.Queue }

func (idle) RMSNorm(_, _ kernels.Tensor, _ kernels.NormSpec)              {}
func (idle) MatMul(kernels.Tensor, []kernels.Product)                     {}
func (idle) RoPE(kernels.Tensor, kernels.Rotation, kernels.Rows)          {}
func (idle) StoreKV(_ kernels.Cache, _, _ kernels.Tensor, _ kernels.Rows) {}
func (idle) Attention(_, _ kernels.Tensor, _ kernels.Cache, _ kernels.AttentionSpec, _ kernels.Rows) {
}
func (idle) Gated(_, _, _ kernels.Tensor, _ kernels.Activation) {}
func (idle) Add(_, _ kernels.Tensor)                            {}

// What the runner itself takes for a block, beside the ops.
func BenchmarkForward(b *testing.B) {
	p, out := block(64, 4, 2, 16, 128)
	l, err := p.Layer(out)
	if err != nil {
		b.Fatal(err)
	}
	r := &runner{
		program:  p,
		weights:  make([]kernels.Weight, len(p.weights)),
		caches:   make([]kernels.Cache, len(p.caches)),
		products: make([]kernels.Product, p.products),
		tensors:  make([]kernels.Tensor, len(p.values)),
	}
	pass := &stage.Pass{Queue: idle{}, Work: kernels.Tensor{Rows: 1, Cols: 8 * l.Shape().Scratch, Type: kernels.F32}}
	x := kernels.Tensor{Rows: 8, Cols: 64, Type: kernels.F32}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Forward(pass, x, x); err != nil {
			b.Fatal(err)
		}
	}
}
