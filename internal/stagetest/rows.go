package stagetest

import (
	"context"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Rows is a layer that computes each row with a Go function, in the memory of a CPU device, or on
// rows that are downloaded from a GPU.
type Rows struct {
	Called string
	Width  int
	Row    func(out, in []float32) error // if nil, out is set to 0
	Batch  func(rows int) error          // if not nil, called before the rows of a batch
	Costs  packer.Cost
}

// Name implements stage.Layer.
func (l *Rows) Name() string { return l.Called }

// Shape implements stage.Layer.
func (l *Rows) Shape() stage.Shape { return stage.Shape{Width: l.Width} }

// Cost implements stage.Layer.
func (l *Rows) Cost(device.Info, stage.Config) (packer.Cost, error) { return l.Costs, nil }

// Load implements stage.Layer.
func (l *Rows) Load(_ context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	if far(q.Device()) {
		return loadFarRows(q, l, c)
	}
	return rowsRunner{l}, nil
}

type rowsRunner struct{ *Rows }

// Forward implements stage.Runner.
func (r rowsRunner) Forward(_ *stage.Pass, in, out kernels.Tensor) error {
	return r.compute(view(out), view(in), in.Cols, out)
}

// compute computes a batch. y gets the rows of out, and x has the input rows of cols columns.
func (l *Rows) compute(y, x []float32, cols int, out kernels.Tensor) error {
	if l.Batch != nil {
		if err := l.Batch(out.Rows); err != nil {
			return err
		}
	}
	for i := range out.Rows {
		own := y[i*out.Cols:][:out.Cols]
		if l.Row == nil {
			clear(own)
		} else if err := l.Row(own, x[i*cols:][:cols]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements stage.Runner.
func (rowsRunner) Close() error { return nil }
