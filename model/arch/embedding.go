package arch

import (
	"context"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// embedding turns tokens into rows: the first layer of a model.
type embedding struct{ table *shared }

func (e *embedding) Name() string       { return "embedding" }
func (e *embedding) Shape() stage.Shape { return stage.Shape{Width: e.table.matrix.Cols} }

func (e *embedding) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	c, err := cost(d, []kernels.Matrix{e.table.matrix}, nil)
	// A row of the table is copied, the rest isn't touched.
	c.Shared, c.Fixed, c.PerRow = e.table.matrix.Name, 0, copying(d, 4*float64(e.table.matrix.Cols))
	return c, err
}

func (e *embedding) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	r := &embeddingRunner{weights: weights{ctx: ctx, queue: q}}
	r.table = r.share(e.table)
	return r, r.loaded()
}

type embeddingRunner struct {
	weights
	table kernels.Weight
}

func (r *embeddingRunner) Forward(p *stage.Pass, _, out kernels.Tensor) error {
	q := p.Queue
	q.Embed(out, r.table, p.Rows)
	return nil
}
