package gpu

import "github.com/leat-dev/leat/kernels"

// The ops that need no header.

func (q *queue) RMSNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	if q.Failed() {
		return
	}
	a := args{op: "RMSNorm", device: q.Device()}
	in, out := a.floats("x", x, x.Rows, x.Cols), a.floats("dst", dst, x.Rows, x.Cols)
	a.apart(out, "x", in)
	p := &q.rmsNorm
	*p = rmsNormParams{
		x: in.at, dst: out.at,
		rows: int32(x.Rows), cols: int32(x.Cols), eps: s.Eps,
	}
	_, p.gain = a.vector("the gain", s.Gain, x.Cols)
	if s.Bias != nil {
		a.fail("NormSpec.Bias is not implemented on a GPU")
	}
	if q.ready(&a) {
		launch(q, q.functions.rmsNorm, p, x.Rows, 1, 1)
	}
}

func (q *queue) SwiGLU(dst, gate, up kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "SwiGLU", device: q.Device()}
	left, right := a.floats("gate", gate, gate.Rows, gate.Cols), a.floats("up", up, gate.Rows, gate.Cols)
	out := a.floats("dst", dst, gate.Rows, gate.Cols)
	a.apart(out, "gate", left)
	a.apart(out, "up", right)
	p := &q.swiglu
	*p = swigluParams{gate: left.at, up: right.at, dst: out.at, n: int32(gate.Rows * gate.Cols)}
	if q.ready(&a) {
		launch(q, q.functions.swiglu, p, ceil(int(p.n), threads), 1, 1)
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
