package stagetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// far reports whether the host can't access a device's memory, as is the case for a GPU.
func far(d device.Device) bool { return !d.Info().HostMemory }

// mostTokens is larger than all tokens of tests.
const mostTokens = 1 << 12

// farLayer is a Layer on a GPU, which only enqueues ops. The first layer looks rows up in a table.
// The others multiply by a matrix with Factor in its first column and add Term; their input must
// be as wide as their output.
type farLayer struct {
	*Layer
	table, matrix kernels.Weight
	none          kernels.Weight    // a table with token 0 only
	product       []kernels.Product // the product with matrix
	term          kernels.Tensor
	free          []func() error
}

// loadFar loads a layer to a GPU.
func loadFar(ctx context.Context, q kernels.Queue, l *Layer, c stage.Config) (_ stage.Runner, err error) {
	r := &farLayer{Layer: l}
	defer func() {
		if err != nil {
			_ = r.release() // the first error tells more
		}
	}()
	pack := func(rows, cols int, at func(row, col int) float32) kernels.Weight {
		m := kernels.Matrix{Name: l.Called, Type: kernels.F32, Rows: rows, Cols: cols}
		for row := range rows {
			for col := range cols {
				m.Data = binary.LittleEndian.AppendUint32(m.Data, math.Float32bits(at(row, col)))
			}
		}
		w, failed := q.Pack(ctx, m)
		if failed == nil {
			r.free = append(r.free, w.Free)
		}
		err = errors.Join(err, failed)
		return w
	}
	r.table = pack(mostTokens, l.Width, func(row, _ int) float32 { return l.Factor*float32(row) + l.Term })
	r.none = pack(1, l.Width, func(int, int) float32 { return 0 })
	r.matrix = pack(l.Width, l.Width, func(_, col int) float32 {
		if col == 0 {
			return l.Factor
		}
		return 0
	})
	r.product = []kernels.Product{{W: r.matrix}}
	terms := make([]float32, max(1, c.MaxRows*l.Width))
	for i := range terms {
		terms[i] = l.Term
	}
	if err != nil {
		return nil, err
	}
	r.term = kernels.Tensor{Cols: l.Width, Type: kernels.F32}
	if r.term.Buf, err = q.Device().Alloc(int64(len(terms)) * 4); err != nil {
		return nil, err
	}
	r.free = append(r.free, r.term.Buf.Free)
	return r, upload(ctx, q, r.term.Buf, bytesOf(terms))
}

// upload copies data to a buffer and waits for the copy.
func upload(ctx context.Context, q kernels.Queue, to device.Buffer, from []byte) error {
	e, err := q.NewEvent()
	if err != nil {
		return err
	}
	q.Begin()
	q.Upload(to, 0, from)
	q.Record(e)
	q.End()
	return e.Wait(ctx)
}

func (r *farLayer) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	broken, err := r.fails(p.Header.Tokens)
	switch {
	case err != nil:
		return err
	case broken: // let a kernel fail, as a GPU has no workers
		q.Embed(out, r.none, p.Rows)
	case in.Buf == nil:
		q.Embed(out, r.table, p.Rows)
	case in.Cols != r.Width:
		return fmt.Errorf("rows of %d become rows of %d: on a GPU this test's layer can't do that", in.Cols, r.Width)
	default:
		r.product[0].Dst = out
		q.MatMul(in, r.product)
		q.Add(out, r.term.First(out.Rows))
	}
	return nil
}

func (r *farLayer) Close() error {
	r.Closed++
	return r.release()
}

func (r *farLayer) release() error {
	var errs []error
	for _, free := range r.free {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}

// farRows is Rows on a GPU: it downloads the rows, computes on the host, and uploads the results.
// So it waits for the device in the middle of each batch.
type farRows struct {
	*Rows
	event device.Event
	in    []float32
	out   [][]float32 // for each slot
}

func (r *farRows) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	if n := in.Rows * in.Cols; n > 0 {
		r.in = append(r.in[:0], make([]float32, n)...)
		q.Download(bytesOf(r.in), in.Buf, in.Off)
		q.Record(r.event)
		if err := r.event.Wait(context.Background()); err != nil {
			return err
		}
	}
	own := r.out[p.Slot][:out.Rows*out.Cols]
	err := r.compute(own, r.in, in.Cols, out)
	if err == nil && len(own) > 0 {
		q.Upload(out.Buf, out.Off, bytesOf(own))
	}
	return err
}

func (*farRows) Close() error { return nil }

func loadFarRows(q kernels.Queue, l *Rows, c stage.Config) (stage.Runner, error) {
	r := &farRows{Rows: l}
	for range c.InFlight {
		r.out = append(r.out, make([]float32, c.MaxRows*l.Width))
	}
	var err error
	r.event, err = q.NewEvent()
	return r, err
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4)
}
