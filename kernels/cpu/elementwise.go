package cpu

import (
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// elementwise is the work of an op that does the same to each element; its unit is
// an element.
type elementwise struct {
	kern      *panel.Kernels
	run       func(j *elementwise, dst, x, y []float32)
	dst, x, y []float32 // y may be nil
	function  kernels.Activation
	number    float32
	parts     int
}

// start does j.run to all elements; each of them takes about ns nanoseconds.
func (q *queue) start(a *args, run func(j *elementwise, dst, x, y []float32), ns float64) {
	j := &q.elementwise
	if !q.ready(a) || len(j.dst) == 0 {
		return
	}
	j.run = run
	j.parts = parts(len(j.dst), ns*float64(len(j.dst)))
	q.Parallel(j.parts, j)
}

// Do computes a span of the elements.
func (j *elementwise) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.dst))
	y := j.y
	if y != nil {
		y = y[from:to]
	}
	j.run(j, j.dst[from:to], j.x[from:to], y)
}

func (q *queue) Activate(dst, x kernels.Tensor, f kernels.Activation) {
	if q.Failed() {
		return
	}
	a := args{op: "Activate"}
	j := &q.elementwise
	j.x, j.y = a.floats("x", x, x.Rows, x.Cols), nil
	j.dst = a.floats("dst", dst, x.Rows, x.Cols)
	j.function = a.activation(f)
	q.start(&a, runActivate, 1)
}

func (q *queue) Gated(dst, gate, up kernels.Tensor, f kernels.Activation) {
	if q.Failed() {
		return
	}
	a := args{op: "Gated"}
	j := &q.elementwise
	j.x = a.floats("gate", gate, gate.Rows, gate.Cols)
	j.y = a.floats("up", up, gate.Rows, gate.Cols)
	j.dst = a.floats("dst", dst, gate.Rows, gate.Cols)
	j.function = a.activation(f)
	q.start(&a, runGated, 1)
}

func (q *queue) Scale(x kernels.Tensor, factor float32) {
	if q.Failed() {
		return
	}
	a := args{op: "Scale"}
	j := &q.elementwise
	j.x, j.y, j.number = a.floats("x", x, x.Rows, x.Cols), nil, factor
	j.dst = j.x
	q.start(&a, runScale, 0.5)
}

func (q *queue) SoftCap(x kernels.Tensor, most float32) {
	if q.Failed() {
		return
	}
	a := args{op: "SoftCap"}
	j := &q.elementwise
	j.x, j.y, j.number = a.floats("x", x, x.Rows, x.Cols), nil, most
	j.dst = j.x
	if err := kernels.CheckSoftCap(most); err != nil {
		a.fail("%w", err)
	}
	q.start(&a, runSoftCap, 1)
}

func (q *queue) Add(dst, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "Add"}
	j := &q.elementwise
	j.dst = a.floats("dst", dst, dst.Rows, dst.Cols)
	j.x, j.y = a.floats("x", x, dst.Rows, dst.Cols), nil
	q.start(&a, runAdd, 0.5)
}

func runActivate(j *elementwise, dst, x, _ []float32) { j.kern.Activate(j.function, dst, x) }
func runGated(j *elementwise, dst, gate, up []float32) {
	j.kern.Gated(j.function, dst, gate, up)
}
func runScale(j *elementwise, dst, x, _ []float32)   { j.kern.Multiply(dst, x, j.number) }
func runSoftCap(j *elementwise, dst, x, _ []float32) { j.kern.SoftCap(dst, x, j.number) }
func runAdd(j *elementwise, dst, x, _ []float32)     { j.kern.Add(dst, x) }

// activation checks a function.
func (a *args) activation(f kernels.Activation) kernels.Activation {
	if !f.Known() {
		a.fail("%v: it must be one of %v", f, kernels.Activations())
	}
	return f
}

// addBias is the work of one AddBias; its unit is a row.
type addBias struct {
	kern    *panel.Kernels
	x, bias []float32
	rows    int
	parts   int
}

func (q *queue) AddBias(x kernels.Tensor, bias kernels.Weight) {
	if q.Failed() {
		return
	}
	a := args{op: "AddBias"}
	j := &q.addBias
	j.x, j.rows = a.floats("x", x, x.Rows, x.Cols), x.Rows
	j.bias = a.vector("the bias", bias, x.Cols)
	if !q.ready(&a) || j.rows == 0 {
		return
	}
	j.parts = parts(j.rows, float64(j.rows)*10+float64(len(j.x))/2)
	q.Parallel(j.parts, j)
}

// Do adds the bias to a span of the rows.
func (j *addBias) Do(part, _ int) {
	from, to := span(part, j.parts, j.rows)
	for r := from; r < to; r++ {
		j.kern.Add(j.x[r*len(j.bias):][:len(j.bias)], j.bias)
	}
}
