// Package pipeline runs a sequence of layers as a pipeline of stages. It cuts the layers
// into runs, and each run becomes a stage on a device. Micro-batches pass through the
// stages one after the other, so that all devices compute at the same time, each on
// another batch.
//
// A [Pipeline] is for layers that turn rows of numbers into rows of numbers, such as an
// MLP or a feature extractor: anything that implements [stage.Layer]. Many goroutines
// may call [Pipeline.Do], or [Pipeline.Map] for a stream of rows. The rows of calls made
// at the same time are computed in the same batches, for which a stage reads its weights
// once. If the layers compute each row independently of the others, the results are the
// same to the bit, whichever rows are in a batch together.
//
//	p, err := pipeline.New(ctx, layers, pipeline.WithInput(784), pipeline.WithDevices("cpu/2"))
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	y, err := p.Do(ctx, x) // x has one or more rows of 784 numbers
//
// A [Plan] says which layers are assigned to which device, before anything is loaded. A
// [Line] is the stages alone, for a user that forms the batches itself: package
// pipeline/generate, which runs language models, does so. This package knows nothing of
// models.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

var (
	// ErrClosed is returned for calls of a pipeline that has been closed. It wraps
	// stage.ErrClosed.
	ErrClosed = fmt.Errorf("pipeline %w", stage.ErrClosed)

	// ErrBusy is returned for calls that would have to wait while the backlog is full;
	// see WithBacklog.
	ErrBusy = errors.New("pipeline busy: its backlog is full")
)

// Pipeline passes the rows of many callers through its stages. Its methods may be called
// from any goroutine.
//
// In the headers of its batches, each row has token 0, position 0 and page table 0, and
// wants results.
type Pipeline struct {
	line    *Line
	queue   queue
	in, out int // numbers in a row of the input, and of the output
	maxRows int
	parts   int // how many batches the waiting rows are divided into
	maxWait time.Duration
	ahead   int

	isolate bool // a batch that failed is computed again in halves
	retries retries

	live    atomic.Int64 // rows of the calls that have not ended
	counts  counts
	aborted chan struct{}

	running sync.WaitGroup // the gatherer
	abort   sync.Once
	over    chan struct{} // closed when everything has ended
	failed  error         // the result of Close, set before over is closed
}

type counts struct{ calls, batches, failures, retries atomic.Int64 }

var errNoInput = errors.New("a pipeline needs the width of its input rows: give pipeline.WithInput")

// New makes a plan for the layers and opens it; see [NewPlan] and [Open]. The options
// must include [WithInput].
func New(ctx context.Context, layers []stage.Layer, options ...Option) (*Pipeline, error) {
	plan, err := NewPlan(ctx, layers, options...)
	if err != nil {
		return nil, err
	}
	return Open(ctx, plan)
}

// Open loads a plan's layers and starts a pipeline, which the caller ends with Close or
// Shutdown. ctx limits the loading only. If Open returns an error, it has freed
// everything.
func Open(ctx context.Context, plan *Plan) (*Pipeline, error) {
	out := plan.layers[len(plan.layers)-1].Shape().Width
	switch {
	case plan.stage.Input == 0:
		return nil, errNoInput
	case out < 1:
		return nil, fmt.Errorf("the last layer, %s, returns rows of %d numbers", plan.layers[len(plan.layers)-1].Name(), out)
	}
	c := plan.config
	p := &Pipeline{
		queue:   newQueue(c.backlog),
		in:      plan.stage.Input,
		out:     out,
		maxRows: min(plan.stage.MaxRows, plan.stage.MaxOutputs),
		parts:   min(plan.replicas(), plan.stage.InFlight),
		maxWait: c.maxWait,
		ahead:   c.ahead,
		isolate: c.isolate,
		aborted: make(chan struct{}),
		over:    make(chan struct{}),
	}
	if p.ahead == 0 {
		p.ahead = plan.stage.InFlight * p.maxRows
	}
	var err error
	p.line, err = plan.open(ctx, Handler{
		Finished: func(b *stage.Batch) { p.finished(b, b.Err()) },
		Changed:  func(int) { p.queue.poke() },
	})
	if err != nil {
		return nil, err
	}
	p.running.Go(p.gather)
	return p, nil
}

// Plan returns the plan that the pipeline was opened from. The caller must not change it.
func (p *Pipeline) Plan() *Plan { return p.line.plan }

// Input returns how many numbers an input row has.
func (p *Pipeline) Input() int { return p.in }

// Output returns how many numbers a result row has.
func (p *Pipeline) Output() int { return p.out }

// Warmup passes as many full batches of zeros through all stages as may be in flight, so
// that the first calls don't spend the time that the first use of memory takes. It
// returns when they have been computed, or with the error of one of them. Warmup also
// runs while the pipeline is failing, and makes it work again if it succeeds.
func (p *Pipeline) Warmup(ctx context.Context) error {
	c := p.queue.unused()
	c.pipeline, c.warm, c.rows = p, true, p.line.plan.stage.InFlight*p.maxRows
	return p.run(ctx, c, true)
}

// Err returns nil while the pipeline accepts calls. Otherwise it returns the error that
// calls get: ErrClosed, or an error that wraps a [*FailingError] for each route.
func (p *Pipeline) Err() error {
	if p.queue.isClosed() {
		return ErrClosed
	}
	return p.line.Err()
}

// Stats sums up what a pipeline has done since it was opened.
type Stats struct {
	Calls    int64                   // calls that were accepted
	Batches  int64                   // batches that were sent
	Failures int64                   // batches that failed
	Retries  int64                   // batches that were sent to compute rows of a failed batch again; see WithIsolation
	Waiting  int                     // calls in the backlog now
	Rows     histogram.Snapshot[int] // the numbers of rows of the batches that were sent
	Stages   []StageStats            // in forward order
}

// Stats returns what the pipeline has done so far.
func (p *Pipeline) Stats() Stats {
	line := p.line.Stats()
	return Stats{
		Calls:    p.counts.calls.Load(),
		Batches:  p.counts.batches.Load(),
		Failures: p.counts.failures.Load(),
		Retries:  p.counts.retries.Load(),
		Waiting:  len(p.queue.room),
		Rows:     line.Rows,
		Stages:   line.Stages,
	}
}

// Shutdown makes the pipeline accept no more calls, which then get ErrClosed, waits until
// the accepted calls have ended, and frees what the pipeline holds. It returns nil, or
// the error of freeing.
//
// If ctx ends first, Shutdown returns ctx's error. The calls continue, and the pipeline
// ends after them; call Close to end them, or Shutdown to wait again. Shutdown returns an
// error at once if it is called by a layer or an observer of the pipeline, since the
// pipeline can't end before they return.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	if p.queue.close() {
		go func() { // returns after the last call has ended
			p.failed = p.finish()
			close(p.over)
		}()
	}
	return waitFor(ctx, p.over, p.line.Inside, &p.failed)
}

// Close ends all calls with ErrClosed, including those whose rows are in a stage, and
// frees what the pipeline holds. It waits for layers that are computing, but not for
// callers. It may be called more than once, and while Shutdown waits.
func (p *Pipeline) Close() error {
	p.abort.Do(func() {
		close(p.aborted)
		p.line.abort()
	})
	return p.Shutdown(context.Background())
}

// finish ends the goroutines, beginning with the gatherer. When that has ended, every
// batch has finished and its results have been copied to the callers.
func (p *Pipeline) finish() error {
	<-p.queue.drained
	err := p.line.Shutdown(context.Background())
	p.running.Wait()
	return err
}
