package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// weight is a matrix on the device: panels of 16 rows, or, of a vector, one
// plain row of F32. Norms and rotations read vectors as they are; a product
// with one, which is rare, spreads it to a panel first.
type weight struct {
	buf        device.Buffer
	typ        kernels.Type
	rows, cols int
	bytes      int64
	stride     int // bytes of a panel; 0: a vector
}

func (w *weight) Type() kernels.Type { return w.typ }
func (w *weight) Rows() int          { return w.rows }
func (w *weight) Cols() int          { return w.cols }
func (w *weight) Bytes() int64       { return w.bytes }
func (w *weight) Free() error        { return w.buf.Free() }

// isVector says whether a matrix is kept as a plain row.
func isVector(t kernels.Type, rows int) bool {
	return rows == 1 && (t == kernels.F32 || t == kernels.F16 || t == kernels.BF16)
}

func (backend) WeightBytes(t kernels.Type, rows, cols int) (int64, error) {
	if rows <= 0 || cols <= 0 {
		return 0, fmt.Errorf("a weight of shape [%d, %d]: both must be positive", rows, cols)
	}
	if !isVector(t, rows) {
		return panel.Bytes(t, rows, cols)
	}
	if cols > math.MaxInt64/4 {
		return 0, fmt.Errorf("a vector of %d elements is too large", cols)
	}
	return 4 * int64(cols), nil
}

func (q *queue) Pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	return m.Pack(func() (kernels.Weight, error) { return q.pack(ctx, m) })
}

func (q *queue) pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	if err := q.Err(); err != nil {
		return nil, fmt.Errorf("the queue has failed before: %w", err)
	}
	size, err := backend{}.WeightBytes(m.Type, m.Rows, m.Cols)
	if err != nil {
		return nil, err
	}
	row, err := m.Type.RowBytes(m.Cols)
	if err != nil {
		return nil, err
	}
	// By division: rows·row could overflow.
	if have := int64(len(m.Data)); have/row != int64(m.Rows) || have%row != 0 {
		return nil, fmt.Errorf("%d rows of %d bytes are needed for [%d, %d] of %v, the data is %d bytes",
			m.Rows, row, m.Rows, m.Cols, m.Type, have)
	}
	stride, err := panel.Stride(m.Type, m.Cols)
	if err != nil {
		return nil, err
	}
	buf, err := q.Device().Alloc(size)
	if err != nil {
		return nil, err
	}
	w := &weight{buf: buf, typ: m.Type, rows: m.Rows, cols: m.Cols, bytes: size}
	j := &packing{ctx: ctx, m: m, stride: int(stride)}
	if isVector(m.Type, m.Rows) {
		j.row = float32s(buf.Bytes()[:size])
		j.dst = make([]byte, stride)
	} else {
		w.stride = int(stride)
		j.dst = buf.Bytes()[:size]
	}
	j.panels = len(j.dst) / j.stride
	j.parts = parts(j.panels, float64(len(j.dst))) // about a byte a nanosecond
	q.Parallel(j.parts, j)
	if j.err == nil {
		j.err = ctx.Err()
	}
	if j.err != nil {
		return nil, errors.Join(j.err, buf.Free())
	}
	return w, nil
}

// packing is the work of one Pack.
type packing struct {
	ctx    context.Context
	m      kernels.Matrix
	dst    []byte
	row    []float32 // of a vector: where its only row goes in the end
	stride int
	panels int
	parts  int

	mu  sync.Mutex
	err error
}

// Do packs some panels.
func (j *packing) Do(part, _ int) {
	if err := kernels.Guard(func() { j.pack(part) }); err != nil {
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
	}
}

func (j *packing) pack(part int) {
	from, to := span(part, j.parts, j.panels)
	for p := from; p < to; p++ {
		if j.ctx.Err() != nil {
			return
		}
		panel.Pack(j.dst[p*j.stride:][:j.stride], j.m, p)
	}
	if j.row != nil {
		panel.Row(j.row, j.dst, j.m.Type, j.m.Cols, 0)
	}
}

// weight returns a weight of this backend with its memory.
func (a *args) weight(name string, w kernels.Weight) (*weight, []byte) {
	v, ok := w.(*weight)
	if !ok || v == nil {
		a.fail("%s is not a weight of a CPU device: it is %T", name, w)
		return nil, nil
	}
	mem := v.buf.Bytes()
	if int64(len(mem)) < v.bytes {
		a.fail("%s [%d, %d] of %v has been freed", name, v.rows, v.cols, v.typ)
		return nil, nil
	}
	return v, mem[:v.bytes]
}

// vector returns the elements of a weight of one row that must have cols
// columns; cols < 0: any number.
func (a *args) vector(name string, w kernels.Weight, cols int) []float32 {
	v, mem := a.weight(name, w)
	if v == nil {
		return nil
	}
	if v.stride != 0 || cols >= 0 && v.cols != cols {
		a.fail("%s is [%d, %d] of %v, it must be [1, %d] of F32, F16 or BF16", name, v.rows, v.cols, v.typ, cols)
		return nil
	}
	return float32s(mem)
}
