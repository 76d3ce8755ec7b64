// Package pipeline puts stages in a row: layers are cut into runs, each run
// becomes a stage on a device, and micro-batches flow through them, so that every
// device works on some batch all the time.
//
// A [Pipeline] is for any layers with rows in and rows out: an MLP, a feature
// extractor, whatever implements [stage.Layer]. Its callers each bring rows of
// their own, with [Pipeline.Do] or as a stream with [Pipeline.Map]; rows of calls
// made at the same time share batches, so that one read of a stage's weights
// serves them all. A caller's result has the same bits whatever else is in the
// batch, as long as the layers compute each row by itself.
//
//	p, err := pipeline.New(ctx, layers, pipeline.WithInput(784), pipeline.WithDevices("cpu/2"))
//	y, err := p.Do(ctx, x)                     // x: one row of 784 numbers, or several
//	for y, err := range p.Map(ctx, xs) { … }   // a stream, in order
//
// Before anything is loaded, a [Plan] says which layers go where. A [Line] is the
// stages alone, for who forms batches in another way: package pipeline/generate
// runs language models on it. This package knows nothing of models.
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
	// ErrClosed says that the pipeline has been closed.
	ErrClosed = fmt.Errorf("pipeline %w", stage.ErrClosed)

	// ErrBusy says that as many calls wait as may; see WithBacklog.
	ErrBusy = errors.New("pipeline busy: its backlog is full")
)

// Pipeline takes rows from many callers at once through its stages. Its methods
// may be called from any goroutine.
//
// Layers see batches whose header has a row a row, with token, position and table
// 0, each of which wants output.
type Pipeline struct {
	line    *Line
	queue   queue
	in, out int // numbers in a row of x, of y
	maxRows int
	parts   int // batches that the rows are shared out among
	maxWait time.Duration
	ahead   int

	isolate bool // a failed batch is tried again in halves
	retries retries

	live    atomic.Int64 // rows of calls that haven't ended
	counts  counts
	aborted chan struct{}

	running sync.WaitGroup // gather
	abort   sync.Once
	over    chan struct{} // closed: all is ended, with
	failed  error
}

type counts struct{ calls, batches, failures, retries atomic.Int64 }

// New plans a pipeline for the layers and opens it; see NewPlan and Open. The
// options must give the width of a row with WithInput.
func New(ctx context.Context, layers []stage.Layer, options ...Option) (*Pipeline, error) {
	plan, err := NewPlan(ctx, layers, options...)
	if err != nil {
		return nil, err
	}
	return Open(ctx, plan)
}

// Open loads a plan's layers and starts a pipeline. ctx limits the loading only.
// When it fails, nothing is left behind. The caller closes it with Close or
// Abort.
func Open(ctx context.Context, plan *Plan) (*Pipeline, error) {
	out := plan.layers[len(plan.layers)-1].Shape().Width
	switch {
	case plan.stage.Input == 0:
		return nil, errNoInput
	case out < 1:
		return nil, fmt.Errorf("the last layer, %s, hands on rows of %d numbers", plan.layers[len(plan.layers)-1].Name(), out)
	}
	c := plan.config
	p := &Pipeline{
		queue:   newQueue(c.Backlog),
		in:      plan.stage.Input,
		out:     out,
		maxRows: min(plan.stage.MaxRows, plan.stage.MaxOutputs),
		parts:   min(plan.standing(), plan.stage.InFlight),
		maxWait: c.MaxWait,
		ahead:   c.Ahead,
		isolate: c.Isolate,
		aborted: make(chan struct{}),
		over:    make(chan struct{}),
	}
	if p.ahead == 0 {
		p.ahead = plan.stage.InFlight * p.maxRows
	}
	var err error
	p.line, err = plan.Start(ctx, Handler{
		Finished: func(b *stage.Batch) { p.finished(b, b.Err()) },
		Changed:  func(int) { p.queue.poke() },
	})
	if err != nil {
		return nil, err
	}
	p.running.Go(p.gather)
	return p, nil
}

// Plan is what the pipeline was opened from.
func (p *Pipeline) Plan() *Plan { return p.line.plan }

// Input is how many numbers a row has that goes in.
func (p *Pipeline) Input() int { return p.in }

// Output is how many numbers a row has that comes out.
func (p *Pipeline) Output() int { return p.out }

// Warmup sends batches of full size, of zeros, through all stages, as many as may
// be in flight, so that the first callers don't pay for memory that is touched
// for the first time. It returns when they have passed, or with the error that
// one of them ended with. They are sent also while the pipeline is failing, which
// works again when they pass.
func (p *Pipeline) Warmup(ctx context.Context) error {
	c := p.queue.unused()
	c.pipeline, c.warm, c.rows = p, true, p.line.plan.stage.InFlight*p.maxRows
	return p.run(ctx, c, true)
}

// Err is nil while the pipeline takes calls, else why it doesn't: a *FailingError
// or ErrClosed.
func (p *Pipeline) Err() error {
	if p.queue.isClosed() {
		return ErrClosed
	}
	return p.line.Err()
}

// Stats is what a pipeline has done since it was opened.
type Stats struct {
	Calls    int64                   // that were taken
	Batches  int64                   // that were sent
	Failures int64                   // batches that failed
	Retries  int64                   // batches, among those sent, of rows whose batch had failed; see WithIsolation
	Waiting  int                     // calls that wait for their turn now
	Rows     histogram.Snapshot[int] // that batches had
	Stages   []StageStats
}

// Stats is a snapshot.
func (p *Pipeline) Stats() Stats {
	return Stats{
		Calls:    p.counts.calls.Load(),
		Batches:  p.counts.batches.Load(),
		Failures: p.counts.failures.Load(),
		Retries:  p.counts.retries.Load(),
		Waiting:  len(p.queue.room),
		Rows:     p.line.BatchRows(),
		Stages:   p.line.Stats(),
	}
}

// Shutdown accepts no more calls, which get ErrClosed, waits until those that it has
// accepted have ended, and frees all that the pipeline holds. It returns nil, or what
// freeing failed with.
//
// If ctx ends before, Shutdown returns ctx's error. The calls go on and the pipeline
// ends after them; call Close to end them, or Shutdown to wait again. A layer or an
// observer of the pipeline, for which its end waits, gets an error at once.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	if p.queue.close() {
		go func() { // it ends with the last layer at work
			p.failed = p.finish()
			close(p.over)
		}()
	}
	return waitFor(ctx, p.over, p.line.Inside, &p.failed)
}

// Close ends all calls with ErrClosed, also those whose rows are in a stage, and frees
// all that the pipeline holds. It waits for layers at work, but not for callers. It may
// be called more than once, and while Shutdown waits.
func (p *Pipeline) Close() error {
	p.abort.Do(func() {
		close(p.aborted)
		p.line.abort()
	})
	return p.Shutdown(context.Background())
}

// finish ends the goroutines, the gatherer's first: when it has ended, every batch has
// come back and its results are with the callers.
func (p *Pipeline) finish() error {
	<-p.queue.drained
	err := p.line.Shutdown(context.Background())
	p.running.Wait()
	return err
}
