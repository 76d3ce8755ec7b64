// Package stage runs one stage of a pipeline: a goroutine with a run of layers on one
// device, which receives batches from a link, computes the layers, and sends the batches
// to the next stage.
//
// Most users of this package implement a [Layer], which package pipeline then runs:
//
//   - a Layer says what it costs and how wide its rows are, and loads its weights;
//   - the [Runner] that it returns computes batches, each of which it sees as a [Pass];
//   - a failure is returned as an [Error], which names the stage, the layer and the device.
//
// A [Batch] is a micro-batch in flight. Its [Message] is the part that is passed from stage
// to stage, within a process or as bytes; its [Result] is what the last stage has computed.
//
// [Load], [Stage] and [Link] are for a program that connects stages itself, as package
// pipeline does, for instance in several processes.
//
// The package owns the memory for activations and the order of the work on a batch. It
// doesn't know which model its layers are part of. Of the stage before, it knows only
// where the activations are and how wide a row is ([Upstream]). It knows nothing of how
// batches are formed.
package stage

import (
	"context"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// Layer is one layer of a model: an embedding, a block, an output head, or a layer of the
// user's own. A Layer itself holds no device memory; Load allocates it.
type Layer interface {
	// Name returns the layer's name, which must be unique in the model, such as
	// "embedding", "block 3" or "output head".
	Name() string

	// Shape returns the widths of the layer's rows and the workspace that it needs.
	Shape() Shape

	// Cost estimates the memory and the time that the layer needs on a device. It must
	// not load the layer.
	Cost(d device.Info, c Config) (packer.Cost, error)

	// Load allocates the layer's weights and state on q's device and fills them. Until
	// it returns, it may use q to compute, from the calling goroutine only. If it returns
	// an error it must have freed what it allocated. A layer with replicas is loaded once
	// for each of them.
	Load(ctx context.Context, q kernels.Queue, c Config) (Runner, error)
}

// Runner is a layer that has been loaded on a device.
type Runner interface {
	// Forward computes the layer for one batch. It reads in and writes out, by enqueuing
	// operations on p.Queue.
	//
	// Both tensors have one row for each row of the batch, except that out has rows only for
	// those that want results if the layer's Shape sets Outputs. They are in the memory of
	// p.Queue's device. They overlap neither each other nor p.Work. The first layer of a
	// pipeline without Config.Input gets an empty in, without a buffer.
	//
	// On a device whose memory is the host's ([device.Info.HostMemory]), Forward may also
	// read and write tensors directly, through the Bytes of their buffers: there an
	// operation is complete when the call that enqueued it has returned, and what earlier
	// layers enqueued is complete when Forward is called. On any other device the host
	// can't reach the tensors' memory, and an operation may run long after Forward has
	// returned. There Forward must use operations of p.Queue only, and it can't see their
	// results.
	//
	// p, in, out and all that they refer to are valid only until Forward returns; Forward
	// must not keep them, nor change p.Header. Operations that it has enqueued may use
	// them afterwards. p.Work holds unspecified values at first, and the next layer may
	// overwrite them. Memory of the layer's own that operations use must stay unchanged
	// until Close.
	//
	// The stage calls Forward from one goroutine at a time and holds the device until it
	// returns, so that Forward must not wait for another batch or close the pipeline. If
	// Forward returns an error, panics or calls runtime.Goexit, or if an operation fails,
	// the batch fails and the stage goes on with the next one.
	Forward(p *Pass, in, out kernels.Tensor) error

	// Close frees what Load allocated. It is called once, after all operations that
	// Forward enqueued are complete.
	Close() error
}

// Shape describes the rows of a layer. All numbers count float32s.
type Shape struct {
	Width     int  // the width of an output row
	Input     int  // the width of an input row; 0: the layer reads rows of any width, or reads only the header
	Scratch   int  // the workspace needed for each row of a batch; Pass.Work has that much for Config.MaxRows rows
	Quantized int  // the width of the widest row that is multiplied by quantized weights; 0: none is
	Outputs   bool // the output has rows only for those rows of the batch that want results, as that of an output head
}

// Config says for which batches the layers of a pipeline are loaded. With package
// pipeline, options set it.
type Config struct {
	MaxRows    int          // the most rows in a batch
	MaxOutputs int          // the most rows in a batch that want results
	MaxTables  int          // the most words of page tables in a batch's header
	MaxTop     int          // the largest Want.Top of a batch, at most kernels.MostTopK
	InFlight   int          // the number of batches in flight, on all routes together
	Input      int          // float32s in a row of a batch's Input, which the first layer reads; 0: the first layer reads the header alone
	Pages      int          // how many pages of kernels.PageTokens positions each layer with state keeps for a route; for a Layer, for all routes of its stage (see Serving)
	KV         kernels.Type // the type in which keys and values are stored
	Host       int64        // bytes of the host's memory that the sender of the batches needs; a plan leaves them free
	Expect     int          // the number of rows for which times are estimated
}

// Serving returns the configuration for the layers of a stage that is on so many routes:
// Pages is multiplied by routes, because the layers keep the pages of each route.
func (c Config) Serving(routes int) Config {
	if c.Pages > math.MaxInt/max(1, routes) {
		c.Pages = math.MaxInt // more than any cache may have
	} else {
		c.Pages *= max(1, routes)
	}
	return c
}

// HeaderBytes returns the size of the largest header of a batch, in bytes.
func (c Config) HeaderBytes() int64 {
	return kernels.HeaderBytes(c.MaxRows, c.MaxOutputs, c.MaxTables)
}
