package stagetest

import (
	"context"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Rows is a layer of the caller's own kind: it computes each row by itself, with
// a Go function on the host's view of a CPU device's memory.
type Rows struct {
	Called string
	Width  int
	Row    func(out, in []float32) error // nil: out is 0
	Batch  func(rows int) error          // if not nil, called before a batch's rows
	Costs  packer.Cost
}

// Name implements stage.Layer.
func (l *Rows) Name() string { return l.Called }

// Shape implements stage.Layer.
func (l *Rows) Shape() stage.Shape { return stage.Shape{Width: l.Width} }

// Cost implements stage.Layer.
func (l *Rows) Cost(device.Info, stage.Config) (packer.Cost, error) { return l.Costs, nil }

// Load implements stage.Layer.
func (l *Rows) Load(context.Context, kernels.Queue, stage.Config) (stage.Runner, error) {
	return rowsRunner{l}, nil
}

type rowsRunner struct{ *Rows }

// Forward implements stage.Runner.
func (r rowsRunner) Forward(_ kernels.Queue, _ *stage.Batch, in, out kernels.Tensor) error {
	if r.Batch != nil {
		if err := r.Batch(out.Rows); err != nil {
			return err
		}
	}
	x, y := view(in), view(out)
	for i := range out.Rows {
		own := y[i*out.Cols:][:out.Cols]
		if r.Row == nil {
			clear(own)
		} else if err := r.Row(own, x[i*in.Cols:][:in.Cols]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements stage.Runner.
func (rowsRunner) Close() error { return nil }
