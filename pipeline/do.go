package pipeline

import (
	"context"
	"fmt"
)

// Do takes rows through the pipeline and returns what comes out, a row for a row:
// x is one row of Input numbers or several, one after the other, and so is the
// result, in rows of Output numbers. It blocks until they have passed.
//
// Calls made at the same time share batches; one of more rows than a batch is
// split over several. Where the backlog is full it blocks until there is a place.
// When ctx ends it returns at once with ctx's error, and x isn't touched
// afterwards. A failure in a stage is a *stage.Error, which all calls with rows in
// that batch get and no others; a pipeline whose batches all fail answers a
// *FailingError, a closed one ErrClosed.
func (p *Pipeline) Do(ctx context.Context, x []float32) ([]float32, error) {
	return p.do(ctx, x, true)
}

// TryDo is Do that doesn't wait for a place: where the backlog is full it returns
// ErrBusy at once.
func (p *Pipeline) TryDo(ctx context.Context, x []float32) ([]float32, error) {
	return p.do(ctx, x, false)
}

// DoInto is Do with the result written to dst, which must have Output numbers a
// row of x and may not overlap it. It allocates nothing in the steady state. dst
// isn't touched after it has returned; with an error, what is in it is of no
// meaning.
func (p *Pipeline) DoInto(ctx context.Context, dst, x []float32) error {
	rows, err := p.rows(x)
	if err == nil && len(dst) != rows*p.out {
		err = fmt.Errorf("room for %d numbers: %d rows of %d come out", len(dst), rows, p.out)
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

// call makes a call that the caller holds.
func (p *Pipeline) call(dst, x []float32, rows int) *call {
	c := p.queue.unused()
	c.pipeline, c.dst, c.x, c.rows = p, dst, x, rows
	return c
}

// mostNumbers is the largest result, in numbers, that is allocated for a caller.
const mostNumbers = 1 << 40

// rows returns how many rows x is.
func (p *Pipeline) rows(x []float32) (int, error) {
	rows := len(x) / p.in
	switch {
	case len(x)%p.in != 0:
		return 0, fmt.Errorf("%d numbers are not a whole number of rows of %d", len(x), p.in)
	case rows > mostNumbers/p.out:
		return 0, fmt.Errorf("%d rows of %d numbers would come out: send fewer at once", rows, p.out)
	}
	return rows, nil
}
