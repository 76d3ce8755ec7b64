// Package generate continues texts with a language model on a pipeline: many
// requests at once, which join and leave while others run.
//
// An [Engine] has one goroutine, which owns all that is known of the requests:
// it gathers rows of many of them into micro-batches, sends those through the
// pipeline, draws a token from each row of logits that comes back, and hands it
// to the caller. The result of a request doesn't depend on what else runs.
package generate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// Engine runs one model. Its methods may be called from any goroutine.
type Engine struct {
	plan      *Plan
	pipeline  *pipeline.Line
	tokenizer tokenizer.Tokenizer
	vocab     int

	schedule *scheduler
	live     map[*sequence]struct{}
	held     <-chan time.Time // runs while a batch waits for more rows
	waited   bool             // it has waited long enough
	drained  bool             // nothing new is taken
	measures measures

	arrivals  chan *sequence
	pokes     chan struct{}     // holds one: a sequence was cancelled, or its caller has taken something
	outgoing  chan *stage.Batch // to the sender; has room for one
	sent      chan submitted    // from it; has room for one
	sending   bool              // it has one
	finished  chan *stage.Batch // from the line; has room for all batches
	health    chan struct{}     // holds one: a route's health has changed
	questions chan chan Counts
	ended     chan struct{} // closed: the engine's goroutine has ended
	draining  chan struct{} // closed: nothing new is taken
	closing   chan struct{} // closed: what runs is ended
	drain     sync.Once
	once      sync.Once
	running   sync.WaitGroup
	failed    error
}

// Open opens a model file, loads it and starts an engine. The file is closed
// again when the weights are on their devices.
func Open(ctx context.Context, path string, options ...Option) (*Engine, error) {
	m, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	e, err := New(ctx, m, options...)
	return e, errors.Join(err, m.Close())
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

// Start loads the plan's model and starts an engine.
func (p *Plan) Start(ctx context.Context) (*Engine, error) {
	e := &Engine{
		plan:      p,
		tokenizer: p.model.Tokenizer,
		vocab:     p.model.Vocab,
		schedule:  newScheduler(p.lanes(), p.MaxSeqs),
		live:      map[*sequence]struct{}{},
		measures:  newMeasures(),
		arrivals:  make(chan *sequence),
		pokes:     make(chan struct{}, 1),
		outgoing:  make(chan *stage.Batch, 1),
		sent:      make(chan submitted, 1),
		finished:  make(chan *stage.Batch, p.InFlight()*p.Routes()),
		health:    make(chan struct{}, 1),
		questions: make(chan chan Counts),
		ended:     make(chan struct{}),
		draining:  make(chan struct{}),
		closing:   make(chan struct{}),
	}
	var err error
	e.pipeline, err = p.Plan.Start(ctx, pipeline.Handler{
		Finished: func(b *stage.Batch) { e.finished <- b },
		Changed: func(int) {
			select {
			case e.health <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return nil, err
	}
	e.running.Go(e.run)
	e.running.Go(e.sender)
	return e, nil
}

// lanes makes a lane a route.
func (p *Plan) lanes() []*lane {
	var lanes []*lane
	for route := range p.Routes() {
		var devices []string
		var shared []int
		for _, s := range p.Stages {
			devices = append(devices, s.On(route).Device.Name)
			shared = append(shared, p.Routes()/max(1, len(s.Replicas)))
		}
		lanes = append(lanes, &lane{
			pages:   newPages(p.Pages),
			pace:    newPace(devices, shared, p.InFlight(), p.InFlightGiven(), p.MaxBatch()),
			maxRows: p.MaxBatch(),
			maxOut:  min(p.MaxBatch(), max(p.MaxSeqs, fewestOutputs)),
		})
	}
	return lanes
}

// Plan is what the engine was started from.
func (e *Engine) Plan() *Plan { return e.plan }

// Tokenizer turns text into the model's tokens and back.
func (e *Engine) Tokenizer() tokenizer.Tokenizer { return e.tokenizer }

// Stats is what the stages have done so far.
func (e *Engine) Stats() []pipeline.StageStats { return e.pipeline.Stats() }

// Drain takes no more requests (they get ErrClosed), lets those that were taken
// come to their ends, and closes the engine. If ctx ends before, they are ended
// as by Close, and ctx's error is returned.
func (e *Engine) Drain(ctx context.Context) error {
	e.drain.Do(func() { close(e.draining) })
	select {
	case <-e.ended:
		return e.Close()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), e.Close())
	}
}

// Close ends the requests that still run with ErrClosed, waits for what is in
// flight, and frees all that the engine holds. It may be called more than once.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.drain.Do(func() { close(e.draining) })
		close(e.closing)
		e.running.Wait()
		e.failed = e.pipeline.Close()
	})
	return e.failed
}

// run is the engine's goroutine.
func (e *Engine) run() {
	returned := false
	defer func() {
		if !returned { // a caller's sampler ended the goroutine (runtime.Goexit)
			e.drain.Do(func() { close(e.draining) })
			e.fail(errors.New("a sampler ended the engine's goroutine: the engine is closed"))
		}
		close(e.outgoing)
		close(e.ended)
	}()
	e.serve()
	returned = true
}

// serve deals with what comes, until the engine is closed.
func (e *Engine) serve() {
	for {
		e.send()
		arrivals, draining := e.arrivals, e.draining
		if len(e.schedule.waiting) >= e.plan.config.backlog {
			arrivals = nil
		}
		if e.drained {
			arrivals, draining = nil, nil
			if len(e.live) == 0 {
				return
			}
		}
		select {
		case s := <-arrivals:
			e.live[s] = struct{}{}
			e.measures.arrived(s)
			if err := e.schedule.failed(); err != nil {
				e.end(s, Failed, err)
			} else {
				e.schedule.arrive(s)
			}
		case b := <-e.finished:
			e.receive(b, b.Err())
		case <-e.health:
			for _, l := range e.schedule.lanes {
				e.examine(l)
			}
			e.schedule.admit()
		case <-e.held:
			e.held, e.waited = nil, true
		case <-e.pokes:
			for s := range e.live {
				if s.cancelled.Load() {
					e.end(s, Cancelled, context.Canceled)
				}
			}
		case o := <-e.sent:
			e.sending = false
			if o.err != nil {
				e.receive(o.batch, o.err)
			}
		case answer := <-e.questions:
			answer <- e.schedule.counts()
		case <-draining:
			e.drained = true
		case <-e.closing:
			e.fail(ErrClosed)
			return
		}
	}
}

// fail ends all requests.
func (e *Engine) fail(err error) {
	for s := range e.live {
		e.end(s, Failed, err)
	}
}
