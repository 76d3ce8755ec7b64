// Package stage is one step of a pipeline: a goroutine that owns a run of
// layers on one device, takes batches from one link, and hands them on to the
// next.
//
// A [Batch] is a micro-batch in flight. Of it a [Message] travels, in place or over
// a wire; a [Layer] sees a [Pass]; and a [Result] is what comes out. The package
// owns the memory for activations, the order of the work on a batch, and the errors
// that say where it went wrong.
//
// A stage never knows which model it runs: it sees a Layer as a cost, a shape and,
// once loaded on its device, a [Runner] that enqueues work. It knows of the stage
// before it only where activations lie and how wide a row is ([Upstream]), and
// nothing of who forms batches, or why.
package stage

import (
	"context"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// Layer is one entry of a model in forward order: an embedding, a block, an
// output head, or one of the caller's own.
type Layer interface {
	// Name is unique in the model: "embedding", "block 3", "output head".
	Name() string

	// Shape says what the layer hands on and needs.
	Shape() Shape

	// Cost estimates what the layer takes on a device, without loading it.
	Cost(d device.Info, c Config) (packer.Cost, error)

	// Load puts the layer's weights and state on q's device. It may compute
	// there meanwhile, from the calling goroutine only.
	Load(ctx context.Context, q kernels.Queue, c Config) (Runner, error)
}

// Runner is a layer on its device.
type Runner interface {
	// Forward enqueues the layer's work on p.Queue: in is read, out is written,
	// both with one row for each row of the batch (or for each of its outputs, see
	// Shape). Neither overlaps the other, nor p.Work. Forward keeps neither p nor
	// anything that p refers to.
	Forward(p *Pass, in, out kernels.Tensor) error

	// Close frees what Load allocated.
	Close() error
}

// Shape is what a layer hands on and needs, in float32s.
type Shape struct {
	Width     int  // a row of its output
	Input     int  // a row of its input; 0: it reads rows of any width, or only the header
	Scratch   int  // workspace a row
	Quantized int  // the widest row that a product with quantized weights reads; 0: none does
	Outputs   bool // its output has a row only for those rows of the batch that want one (an output head)
}

// Config is what the layers of a pipeline are loaded for.
type Config struct {
	MaxRows    int          // most rows in a batch
	MaxOutputs int          // most rows that want output in a batch
	MaxTables  int          // most words of page tables in a batch
	MaxTop     int          // most columns of a row that a batch may ask for with Want.Top, up to kernels.MostTopK
	InFlight   int          // batches in flight, on all routes
	Input      int          // float32s a row that a batch brings along for the first layer; 0: the first layer has no input but the header
	Pages      int          // pages of kernels.PageTokens positions that each layer with state keeps: of one route, or as Serving gives it of all that a stage serves
	KV         kernels.Type // how keys and values are stored
	Host       int64        // bytes of the host's memory that the sender of the batches needs for them, by which plans allow the stages less
	Expect     int          // rows that a batch is expected to have, for estimates of time
}

// Serving is what the layers of a stage that serves so many routes are loaded for,
// and cost: they keep the pages of each.
func (c Config) Serving(routes int) Config {
	if c.Pages > math.MaxInt/max(1, routes) {
		c.Pages = math.MaxInt // more than any cache may have
	} else {
		c.Pages *= max(1, routes)
	}
	return c
}

// HeaderBytes returns the size of the largest header that batches under c have.
func (c Config) HeaderBytes() int64 {
	return kernels.HeaderBytes(c.MaxRows, c.MaxOutputs, c.MaxTables)
}
