package program

import (
	"context"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// layer is a complete program, whose values have locations. It implements stage.Layer, and may be
// loaded several times.
type layer struct {
	program *Program // not modified any more
	shape   stage.Shape
}

func (l *layer) Name() string       { return l.program.name }
func (l *layer) Shape() stage.Shape { return l.shape }

// Cost returns the cost of the program's weights and caches.
func (l *layer) Cost(d device.Info, c stage.Config) (packer.Cost, error) {
	return l.program.cost(d, c)
}

// Load loads the program's weights to the queue's device and allocates its caches there.
func (l *layer) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	p := l.program
	load := loader{ctx: ctx, queue: q}
	r := &runner{
		program:  p,
		weights:  make([]kernels.Weight, len(p.weights)),
		products: make([]kernels.Product, p.products),
		tensors:  make([]kernels.Tensor, len(p.values)),
	}
	for i, w := range p.weights[1:] {
		r.weights[1+i] = load.weight(w)
	}
	for i := range p.caches {
		r.caches = append(r.caches, load.cache(p.cacheSpec(i, c)))
	}
	for _, s := range p.steps {
		if s, ok := s.(*matMul); ok {
			for i, w := range s.weights {
				r.products[s.first+i].W = r.weights[w]
			}
		}
	}
	r.free = load.free
	if load.err != nil {
		_ = r.Close() // the first error tells more
		return nil, load.err
	}
	return r, nil
}

func (p *Program) cacheSpec(i int, c stage.Config) kernels.CacheSpec {
	return kernels.CacheSpec{Type: c.KV, Heads: p.caches[i].count, HeadDim: p.caches[i].dim, Pages: c.Pages}
}

// runner is a program that is loaded on a device. It implements stage.Runner.
type runner struct {
	program  *Program
	weights  []kernels.Weight // by Weight; the first is nil
	caches   []kernels.Cache
	products []kernels.Product // of all MatMuls; Forward sets their results
	free     []func() error    // functions to call in Close

	// The operands of one Forward, which sets them at its beginning.
	queue   kernels.Queue
	rows    kernels.Rows
	tensors []kernels.Tensor // by Value
}

// Forward enqueues the steps in order. It does not allocate.
func (r *runner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	if out.Rows == 0 {
		return nil // this is a head, and no row wants output
	}
	r.queue, r.rows = p.Queue, p.Rows
	r.locate(in, out, p.Work)
	for _, s := range r.program.steps {
		s.enqueue(r)
	}
	return nil
}

// locate sets the tensors of the values for the current batch. All values but the input have as
// many rows as the output.
func (r *runner) locate(in, out, work kernels.Tensor) {
	for i := range r.tensors {
		a, t := &r.program.values[i], &r.tensors[i]
		switch a.location {
		case input:
			*t = in
		case output:
			*t = out
		case workspace:
			t.Buf, t.Off = work.Buf, work.Off+int64(out.Rows)*int64(a.at)*4
			t.Rows, t.Cols, t.Type = out.Rows, a.cols, work.Type
		}
	}
}

// at returns a value's tensor in the current batch.
func (r *runner) at(v Value) kernels.Tensor { return r.tensors[v] }

// Close frees the weights and caches and returns the first error.
func (r *runner) Close() error {
	var first error
	for _, free := range r.free {
		if err := free(); err != nil && first == nil {
			first = err
		}
	}
	r.free = nil
	return first
}
