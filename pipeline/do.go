package pipeline

import (
	"context"
	"fmt"
)

// Do passes the rows in x through all layers and returns the results. x holds one or
// more rows of [Pipeline.Input] numbers, one after the other; the result holds as many
// rows of [Pipeline.Output] numbers, in the same order. Do blocks until they are
// computed.
//
// Rows of calls made at the same time are computed in the same batches. A call with more
// rows than a batch holds is split over several batches. If the backlog is full, Do
// blocks until a call leaves it. If ctx ends, Do returns ctx's error at once, and x is
// not read after that.
//
// If a stage fails, the error is a [*stage.Error]; see [WithIsolation] for which calls
// get it. While all routes are failing, the error wraps a [*FailingError], and after the
// pipeline was closed it is [ErrClosed].
func (p *Pipeline) Do(ctx context.Context, x []float32) ([]float32, error) {
	return p.do(ctx, x, true)
}

// TryDo is Do, except that it returns ErrBusy at once if the backlog is full.
func (p *Pipeline) TryDo(ctx context.Context, x []float32) ([]float32, error) {
	return p.do(ctx, x, false)
}

// DoInto is Do, except that it writes the results to dst. The length of dst must be that
// of the results, and dst must not overlap x. DoInto doesn't allocate memory once the
// pipeline has served as many calls at the same time before. After it has returned, dst
// is not written any more; after an error, the contents of dst are unspecified.
func (p *Pipeline) DoInto(ctx context.Context, dst, x []float32) error {
	rows, err := p.rows(x)
	if err == nil && len(dst) != rows*p.out {
		err = fmt.Errorf("dst has length %d: the results are %d rows of %d numbers", len(dst), rows, p.out)
	}
	if err != nil {
		return err
	}
	if rows == 0 {
		return p.none(ctx)
	}
	return p.run(ctx, p.call(dst, x, rows), true)
}

func (p *Pipeline) do(ctx context.Context, x []float32, wait bool) ([]float32, error) {
	rows, err := p.rows(x)
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, p.none(ctx)
	}
	dst := make([]float32, rows*p.out)
	if err := p.run(ctx, p.call(dst, x, rows), wait); err != nil {
		return nil, err
	}
	return dst, nil
}

// none returns the error of a call without rows.
func (p *Pipeline) none(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Err()
}

// call returns a new call, to which its caller holds a reference.
func (p *Pipeline) call(dst, x []float32, rows int) *call {
	c := p.queue.unused()
	c.pipeline, c.dst, c.x, c.rows = p, dst, x, rows
	return c
}

// mostNumbers limits the size of a result that is allocated for a caller.
const mostNumbers = 1 << 40

// rows returns the number of rows in x.
func (p *Pipeline) rows(x []float32) (int, error) {
	rows := len(x) / p.in
	switch {
	case len(x)%p.in != 0:
		return 0, fmt.Errorf("%d numbers are not a whole number of rows of %d", len(x), p.in)
	case rows > mostNumbers/p.out:
		return 0, fmt.Errorf("the results would be %d rows of %d numbers: pass fewer rows at once", rows, p.out)
	}
	return rows, nil
}
