package gpu

import "github.com/leat-dev/leat/kernels"

// The ops that go by a batch's header.

func (q *queue) Embed(dst kernels.Tensor, table kernels.Weight, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Embed", device: q.Device()}
	w, at := a.weight("the table", table)
	if w == nil {
		q.ready(&a)
		return
	}
	p := &q.embed
	*p = embedParams{
		table:  at,
		header: a.header(rows, dst.Rows),
		dst:    a.floats("dst", dst, dst.Rows, w.cols).at,
		status: q.status,
		rows:   int32(dst.Rows), cols: int32(w.cols), tokens: int32(w.rows),
		chunks: int32(w.chunks), lanes: int32(w.lanes), typ: int32(w.layout.typ),
	}
	if q.ready(&a) {
		launch(q, q.functions.embed, p, dst.Rows, 1, 1)
	}
}

func (q *queue) RoPE(x kernels.Tensor, r kernels.Rotation, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "RoPE", device: q.Device()}
	p := &q.rope
	*p = ropeParams{
		header: a.header(rows, x.Rows),
		x:      a.floats("x", x, x.Rows, x.Cols).at,
		status: q.status,
		rows:   int32(x.Rows), cols: int32(x.Cols), dim: int32(r.HeadDim),
	}
	freq, at := a.vector("the frequencies", r.Frequencies, -1)
	if freq == nil {
		q.ready(&a)
		return
	}
	p.frequencies, p.pairs = at, int32(freq.cols)
	if r.Split {
		p.split = 1
	}
	if r.HeadDim <= 0 || x.Cols%r.HeadDim != 0 {
		a.fail("x has %d columns, which are not whole heads of %d", x.Cols, r.HeadDim)
	}
	if 2*freq.cols > r.HeadDim {
		a.fail("%d frequencies turn %d elements, a head has %d", freq.cols, 2*freq.cols, r.HeadDim)
	}
	if q.ready(&a) {
		launch(q, q.functions.rope, p, x.Rows, 1, 1)
	}
}

func (q *queue) Gather(dst, src kernels.Tensor, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Gather", device: q.Device()}
	header := a.header(rows, src.Rows)
	from := a.floats("src", src, src.Rows, src.Cols)
	to := a.floats("dst", dst, rows.Outputs, src.Cols)
	if to.overlaps(from) {
		a.fail("dst lies over src")
	}
	p := &q.gather
	*p = gatherParams{
		dst: to.at, src: from.at, header: header, status: q.status,
		rows: int32(src.Rows), cols: int32(src.Cols), outputs: int32(rows.Outputs),
	}
	if q.ready(&a) {
		launch(q, q.functions.gather, p, rows.Outputs, 1, 1)
	}
}
