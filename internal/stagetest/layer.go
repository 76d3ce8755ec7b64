// Package stagetest has layers for tests. They do simple arithmetic, in the memory of a CPU device
// or with the ops of a GPU, and can be made to fail. The package can also make such tests run on
// other devices than they name; see Devices.
package stagetest

import (
	"context"
	"errors"
	"runtime"
	"unsafe"

	"github.com/leat-dev/leat/device"
	devicecpu "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Layer is a layer whose output has Factor·x + Term in all columns of a row, where x is the first
// number of the input row or, in the first layer, the row's token.
type Layer struct {
	Called         string
	Width, Scratch int
	Quantized      int
	Factor, Term   float32
	Costs          packer.Cost

	LoadErr   error
	LoadPanic any

	// A batch with one of these tokens, if not 0, fails in that way. A GPU has no workers:
	// with WorkerPanicToken, a kernel fails instead.
	FailToken, PanicToken, WorkerPanicToken, GoexitToken int32

	Closed int // how often runners of the layer were closed
}

// Name implements stage.Layer.
func (l *Layer) Name() string { return l.Called }

// Shape implements stage.Layer.
func (l *Layer) Shape() stage.Shape {
	return stage.Shape{Width: l.Width, Scratch: l.Scratch, Quantized: l.Quantized}
}

// Cost implements stage.Layer.
func (l *Layer) Cost(device.Info, stage.Config) (packer.Cost, error) { return l.Costs, nil }

// Load implements stage.Layer.
func (l *Layer) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	if l.LoadPanic != nil {
		panic(l.LoadPanic)
	}
	if l.LoadErr == nil && far(q.Device()) {
		return loadFar(ctx, q, l, c)
	}
	return &runner{l}, l.LoadErr
}

type runner struct{ *Layer }

// ErrFail is the error of a batch with FailToken.
var ErrFail = errors.New("told to fail")

// workers is implemented by the queues of CPU devices.
type workers interface {
	Parallel(parts int, j devicecpu.Job)
}

type panics struct{}

func (panics) Do(part, _ int) {
	if part == 7 {
		panic("told to panic in a worker")
	}
}

// fails fails if one of the tokens demands it. worker is true if a worker should panic instead.
func (l *Layer) fails(tokens []int32) (worker bool, err error) {
	for _, t := range tokens {
		switch t {
		case 0: // means that the fields below are not set
		case l.FailToken:
			return false, ErrFail
		case l.PanicToken:
			panic("told to panic")
		case l.GoexitToken:
			runtime.Goexit()
		case l.WorkerPanicToken:
			worker = true
		}
	}
	return worker, nil
}

func (r *runner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	worker, err := r.fails(p.Header.Tokens)
	if err != nil {
		return err
	}
	if worker {
		q.(workers).Parallel(16, panics{})
	}
	y := view(out)
	for row := range out.Rows {
		x := float32(p.Header.Tokens[row])
		if in.Buf != nil {
			x = view(in)[row*in.Cols]
		}
		for col := range out.Cols {
			y[row*out.Cols+col] = r.Factor*x + r.Term
		}
	}
	return nil
}

func view(t kernels.Tensor) []float32 {
	if t.Bytes() == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&t.Buf.Bytes()[t.Off])), t.Rows*t.Cols)
}

func (r *runner) Close() error {
	r.Closed++
	return nil
}
