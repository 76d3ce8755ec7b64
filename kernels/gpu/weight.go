package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// weight is a matrix on the device.
type weight struct {
	layout
	buf        device.Buffer
	typ        kernels.Type // of the file
	rows, cols int
	bytes      int64
}

func (w *weight) Type() kernels.Type { return w.typ }
func (w *weight) Rows() int          { return w.rows }
func (w *weight) Cols() int          { return w.cols }
func (w *weight) Bytes() int64       { return w.bytes }
func (w *weight) Free() error        { return w.buf.Free() }

// vector says whether the weight is a plain row of F32.
func (w *weight) vector() bool { return w.lanes == 1 }

func (backend) WeightBytes(t kernels.Type, rows, cols int) (int64, error) {
	l, err := layoutOf(t, rows, cols)
	if err != nil {
		return 0, err
	}
	size, err := l.bytes()
	return wholePages(size), err
}

// Pack brings a matrix into panels, in pieces of a few MiB: while one is copied
// to the device from pinned memory, the next is packed. It has a queue of its own
// for that, so that what is enqueued on q goes on.
func (q *queue) Pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	return m.Pack(func() (kernels.Weight, error) { return q.pack(ctx, m) })
}

func (q *queue) pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	if err := q.Err(); err != nil {
		return nil, fmt.Errorf("the queue has failed before: %w", err)
	}
	l, err := layoutOf(m.Type, m.Rows, m.Cols)
	if err != nil {
		return nil, err
	}
	size, err := l.bytes()
	if err != nil {
		return nil, err
	}
	size = wholePages(size)
	row, err := m.Type.RowBytes(m.Cols)
	if err != nil {
		return nil, err
	}
	// By division: rows·row could overflow.
	if have := int64(len(m.Data)); have/row != int64(m.Rows) || have%row != 0 {
		return nil, fmt.Errorf("%d rows of %d bytes are needed for [%d, %d] of %v, the data is %d bytes",
			m.Rows, row, m.Rows, m.Cols, m.Type, have)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := q.packer.prepare(q.Device()); err != nil {
		return nil, err
	}
	buf, err := q.Device().Alloc(size)
	if err != nil {
		return nil, err
	}
	if err := q.packer.run(ctx, buf, &l, &m); err != nil {
		return nil, errors.Join(err, buf.Free())
	}
	return &weight{layout: l, buf: buf, typ: m.Type, rows: m.Rows, cols: m.Cols, bytes: size}, nil
}
