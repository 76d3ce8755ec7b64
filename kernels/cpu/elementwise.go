package cpu

import (
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// swiglu is the work of one SwiGLU; its unit is an element.
type swiglu struct {
	kern          *panel.Kernels
	dst, gate, up []float32
	parts         int
}

func (q *queue) SwiGLU(dst, gate, up kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "SwiGLU"}
	j := &q.swiglu
	j.gate = a.floats("gate", gate, gate.Rows, gate.Cols)
	j.up = a.floats("up", up, gate.Rows, gate.Cols)
	j.dst = a.floats("dst", dst, gate.Rows, gate.Cols)
	if !q.ready(&a) || len(j.dst) == 0 {
		return
	}
	j.parts = parts(len(j.dst), float64(len(j.dst)))
	q.Parallel(j.parts, j)
}

// Do computes a span of the elements.
func (j *swiglu) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.dst))
	j.kern.SwiGLU(j.dst[from:to], j.gate[from:to], j.up[from:to])
}

// add is the work of one Add; its unit is an element.
type add struct {
	kern   *panel.Kernels
	dst, x []float32
	parts  int
}

func (q *queue) Add(dst, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "Add"}
	j := &q.add
	j.dst = a.floats("dst", dst, dst.Rows, dst.Cols)
	j.x = a.floats("x", x, dst.Rows, dst.Cols)
	if !q.ready(&a) || len(j.dst) == 0 {
		return
	}
	j.parts = parts(len(j.dst), float64(len(j.dst))/2)
	q.Parallel(j.parts, j)
}

// Do adds a span of the elements.
func (j *add) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.dst))
	j.kern.Add(j.dst[from:to], j.x[from:to])
}
