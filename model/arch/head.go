package arch

import (
	"context"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// head turns the rows that want output into logits: the final norm, then a
// product with a row of weights a token. The last layer of a model.
type head struct {
	norm   kernels.Matrix
	output *shared // the embedding's table, where the two are tied
	eps    float32
}

func (h *head) Name() string { return "output head" }

func (h *head) Shape() stage.Shape {
	m := h.output.matrix
	return stage.Shape{Width: m.Rows, Scratch: 2 * m.Cols, Quantized: quantized(m), Outputs: true}
}

func (h *head) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	c, err := cost(d, []kernels.Matrix{h.norm, h.output.matrix}, nil)
	if err != nil {
		return c, err
	}
	norm, err := cost(d, []kernels.Matrix{h.norm}, nil)
	c.Shared, c.Own = h.output.matrix.Name, norm.Weights
	return c, err
}

func (h *head) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	r := &headRunner{weights: weights{ctx: ctx, queue: q}, eps: h.eps}
	r.norm = r.pack(h.norm)
	r.products[0].W = r.share(h.output)
	return r, r.loaded()
}

type headRunner struct {
	weights
	norm     kernels.Weight
	products [1]kernels.Product
	eps      float32
}

func (r *headRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	if out.Rows == 0 {
		return nil
	}
	wanted, rest := stage.Floats(p.Work, out.Rows, in.Cols)
	normed, _ := stage.Floats(rest, out.Rows, in.Cols)
	q.Gather(wanted, in, p.Rows)
	q.RMSNorm(normed, wanted, kernels.NormSpec{Gain: r.norm, Eps: r.eps})
	r.products[0].Dst = out
	q.MatMul(normed, r.products[:])
	return nil
}
