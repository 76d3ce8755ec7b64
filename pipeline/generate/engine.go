// Package generate continues texts with a language model on a pipeline: many
// requests at once, which join and leave while others run.
//
// An [Engine] has no goroutine that everything has to pass through. Its state, a
// [schedule.Scheduler] and the requests, lies behind one mutex, and whoever has
// something in hand does what follows from it: the goroutine of the last stage, which
// has a batch's results, draws the tokens, fills the next batch and sends it to the
// first stage; a caller adds its own request. So from a result to the next batch there
// is no other goroutine to wake. What a caller supplies, a [Sampler] or the body of
// its loop, runs on the caller's own goroutine and can delay that request alone.
//
// The result of a request does not depend on what else runs. Whose rows a batch has is
// the business of package schedule, how a token is drawn that of package sampling, and
// how tokens become text that can be shown that of package text.
package generate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/stage"
)

// Engine runs one model. Its methods may be called from any goroutine.
type Engine struct {
	plan      *Plan
	line      *pipeline.Line
	tokenizer tokenizer.Tokenizer
	vocab     int
	measures  measures

	outgoing chan *stage.Batch // to the sender, which waits for room in the pipeline; has room for one
	sender   sync.WaitGroup
	draining chan struct{} // closed: nothing new is taken
	idle     chan struct{} // closed: nothing new is taken, and no request is left
	once     sync.Once
	failed   error // what Close returns

	mu       sync.Mutex // guards what follows
	schedule *schedule.Scheduler
	live     map[*request]struct{} // requests that have not ended
	blocked  []*request            // of these, those beyond the backlog; ended ones are skipped
	waits    wait                  // for more rows
	maxWait  time.Duration         // for which a batch waits for them
	failing  []bool                // routes that the scheduler was told not to use
	sending  bool                  // the sender has a batch
	wakes    []*request            // whose callers have something to take; see unlock
	spare    []*request            // memory for it
	drained  bool                  // nothing new is taken
	closed   bool
}

// Open opens a model file, loads it and starts an engine. The file is closed again
// when the weights are on their devices.
func Open(ctx context.Context, path string, options ...Option) (*Engine, error) {
	m, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	e, err := New(ctx, m, options...)
	if closing := m.Close(); closing != nil && err == nil {
		return nil, errors.Join(closing, e.Close())
	}
	return e, err
}

// New loads a model and starts an engine. ctx limits the loading only. The model
// stays the caller's, who may close it when New has returned.
func New(ctx context.Context, m *model.Model, options ...Option) (*Engine, error) {
	p, err := NewPlan(ctx, m, options...)
	if err != nil {
		return nil, err
	}
	return p.Start(ctx)
}

// Start loads the plan's model and starts an engine. ctx limits the loading only.
func (p *Plan) Start(ctx context.Context) (*Engine, error) {
	e := &Engine{
		plan:      p,
		tokenizer: p.model.Tokenizer,
		vocab:     p.model.Vocab,
		schedule:  schedule.New(p.schedule()),
		failing:   make([]bool, p.Routes()),
		live:      map[*request]struct{}{},
		measures:  newMeasures(),
		maxWait:   p.config.maxWait,
		outgoing:  make(chan *stage.Batch, 1),
		draining:  make(chan struct{}),
		idle:      make(chan struct{}),
	}
	var err error
	if e.line, err = p.Plan.Start(ctx, pipeline.Handler{Finished: e.finished, Changed: e.changed}); err != nil {
		return nil, err
	}
	e.sender.Go(e.send)
	return e, nil
}

// schedule is what the plan gives a scheduler to work with.
func (p *Plan) schedule() schedule.Config {
	c := schedule.Config{
		MaxRows:    p.MaxBatch(),
		MaxOutputs: min(p.MaxBatch(), max(p.MaxSeqs, fewestOutputs)),
		MaxSeqs:    p.MaxSeqs,
		Grace:      stalledGrace,
	}
	for route := range p.Routes() {
		r := schedule.Route{Pages: p.Pages, InFlight: p.InFlight(), Fixed: p.InFlightGiven()}
		for _, s := range p.Stages {
			r.Stages = append(r.Stages, schedule.Stage{Device: s.On(route).Device.Name, Routes: p.Routes() / len(s.Each())})
		}
		c.Routes = append(c.Routes, r)
	}
	return c
}

// Plan returns what the engine was started from.
func (e *Engine) Plan() *Plan { return e.plan }

// Tokenizer returns what turns text into the model's tokens and back.
func (e *Engine) Tokenizer() tokenizer.Tokenizer { return e.tokenizer }

// Stats returns what the stages have done so far.
func (e *Engine) Stats() []pipeline.StageStats { return e.line.Stats() }

// SetMaxWait replaces what WithMaxWait has set. A caller who knows that it will make no
// further requests sets 0, so that the last ones wait for nothing. A batch that is
// being held back is subject to the new value at once.
func (e *Engine) SetMaxWait(d time.Duration) {
	e.mu.Lock()
	e.maxWait = max(0, d)
	e.step()
	e.unlock()
}

// Drain takes no more requests (they get ErrClosed), waits until those that were
// taken have ended, and closes the engine. If ctx ends before, they are ended as by
// Close, and ctx's error is returned.
func (e *Engine) Drain(ctx context.Context) error {
	e.refuse()
	select {
	case <-e.idle:
		return e.Close()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), e.Close())
	}
}

// refuse has the engine take no more requests. Those beyond the backlog were not
// taken yet.
func (e *Engine) refuse() {
	e.mu.Lock()
	if !e.drained {
		e.drained = true
		e.maxWait = 0 // for requests that can't come
		close(e.draining)
		for _, r := range e.blocked {
			e.end(r, Failed, ErrClosed)
		}
		e.blocked = nil
		e.settle()
		e.step()
	}
	e.unlock()
}

// settle says that no request is left, where that is so for good. The engine is
// locked.
func (e *Engine) settle() {
	if !e.drained || len(e.live) > 0 {
		return
	}
	select {
	case <-e.idle:
	default:
		close(e.idle)
	}
}

// Close ends the requests that still run with ErrClosed, waits for the batches in
// flight, and frees all that the engine holds. It waits for no caller. It may be
// called more than once; each call returns when all is freed.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.refuse()
		e.mu.Lock()
		e.closed = true
		for r := range e.live {
			e.end(r, Failed, ErrClosed)
		}
		e.waits.stop()
		close(e.outgoing)
		e.unlock()
		e.sender.Wait()
		e.failed = e.line.Close()
	})
	return e.failed
}
