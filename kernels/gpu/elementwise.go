package gpu

import (
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// The ops that need no header.

func (q *queue) RMSNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	q.normalize("RMSNorm", q.functions.rmsNorm, dst, x, &s)
}

func (q *queue) LayerNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	q.normalize("LayerNorm", q.functions.layerNorm, dst, x, &s)
}

func (q *queue) normalize(op string, f device.Function, dst, x kernels.Tensor, s *kernels.NormSpec) {
	if q.Failed() {
		return
	}
	a := args{op: op, device: q.Device()}
	in, out := a.floats("x", x, x.Rows, x.Cols), a.floats("dst", dst, x.Rows, x.Cols)
	a.apart(out, "x", in)
	p := &q.norm
	*p = normParams{
		x: in.at, dst: out.at,
		rows: int32(x.Rows), cols: int32(x.Cols), eps: s.Eps,
	}
	_, p.gain = a.vector("the gain", s.Gain, x.Cols)
	if s.Bias != nil {
		_, p.bias = a.vector("the bias", s.Bias, x.Cols)
		p.biased = 1
	}
	if q.ready(&a) {
		launch(q, f, p, x.Rows, 1, 1)
	}
}

func (q *queue) Activate(dst, x kernels.Tensor, f kernels.Activation) {
	if q.Failed() {
		return
	}
	a := args{op: "Activate", device: q.Device()}
	in, out := a.floats("x", x, x.Rows, x.Cols), a.floats("dst", dst, x.Rows, x.Cols)
	a.apart(out, "x", in)
	p := &q.activate
	*p = activateParams{x: in.at, dst: out.at, n: int32(x.Rows * x.Cols), function: a.activation(f)}
	if q.ready(&a) {
		launch(q, q.functions.activate, p, ceil(int(p.n), threads), 1, 1)
	}
}

func (q *queue) Gated(dst, gate, up kernels.Tensor, f kernels.Activation) {
	if q.Failed() {
		return
	}
	a := args{op: "Gated", device: q.Device()}
	left, right := a.floats("gate", gate, gate.Rows, gate.Cols), a.floats("up", up, gate.Rows, gate.Cols)
	out := a.floats("dst", dst, gate.Rows, gate.Cols)
	a.apart(out, "gate", left)
	a.apart(out, "up", right)
	p := &q.gated
	*p = gatedParams{gate: left.at, up: right.at, dst: out.at, n: int32(gate.Rows * gate.Cols), function: a.activation(f)}
	if q.ready(&a) {
		launch(q, q.functions.gated, p, ceil(int(p.n), threads), 1, 1)
	}
}

// activation checks a function, and returns its number.
func (a *args) activation(f kernels.Activation) int32 {
	if !f.Known() {
		a.fail("%v: it must be one of %v", f, kernels.Activations())
	}
	return int32(f)
}

func (q *queue) Scale(x kernels.Tensor, factor float32) {
	if q.Failed() {
		return
	}
	a := args{op: "Scale", device: q.Device()}
	q.byNumber(&a, q.functions.scale, x, factor)
}

func (q *queue) SoftCap(x kernels.Tensor, most float32) {
	if q.Failed() {
		return
	}
	a := args{op: "SoftCap", device: q.Device()}
	if err := kernels.CheckSoftCap(most); err != nil {
		a.fail("%w", err)
	}
	q.byNumber(&a, q.functions.softCap, x, most)
}

// byNumber enqueues an op of each element of x and one number.
func (q *queue) byNumber(a *args, f device.Function, x kernels.Tensor, number float32) {
	p := &q.number
	*p = numberParams{x: a.floats("x", x, x.Rows, x.Cols).at, n: int32(x.Rows * x.Cols), number: number}
	if q.ready(a) {
		launch(q, f, p, ceil(int(p.n), threads), 1, 1)
	}
}

func (q *queue) AddBias(x kernels.Tensor, bias kernels.Weight) {
	if q.Failed() {
		return
	}
	a := args{op: "AddBias", device: q.Device()}
	p := &q.addBias
	*p = addBiasParams{x: a.floats("x", x, x.Rows, x.Cols).at, n: int32(x.Rows * x.Cols), cols: int32(x.Cols)}
	_, p.bias = a.vector("the bias", bias, x.Cols)
	if q.ready(&a) {
		launch(q, q.functions.addBias, p, ceil(int(p.n), threads), 1, 1)
	}
}

func (q *queue) Add(dst, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "Add", device: q.Device()}
	out, in := a.floats("dst", dst, dst.Rows, dst.Cols), a.floats("x", x, dst.Rows, dst.Cols)
	a.apart(out, "x", in)
	p := &q.add
	*p = addParams{dst: out.at, x: in.at, n: int32(dst.Rows * dst.Cols)}
	if q.ready(&a) {
		launch(q, q.functions.add, p, ceil(int(p.n), threads), 1, 1)
	}
}

func (q *queue) ArgMax(dst, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "ArgMax", device: q.Device()}
	in, out := a.floats("x", x, x.Rows, x.Cols), a.ints("dst", dst, x.Rows, 1)
	if out.overlaps(in) {
		a.fail("dst lies over x")
	}
	p := &q.argMax
	*p = argMaxParams{x: in.at, dst: out.at, rows: int32(x.Rows), cols: int32(x.Cols)}
	if q.ready(&a) {
		launch(q, q.functions.argMax, p, x.Rows, 1, 1)
	}
}
