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
	"fmt"
	"slices"
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
	tokenizer *tokenizer.Tokenizer
	vocab     int

	schedule scheduler
	live     map[*sequence]struct{}
	held     <-chan time.Time // runs while a batch waits for more rows
	waited   bool             // it has waited long enough
	drained  bool             // nothing new is taken
	flying   int              // batches

	arrivals  chan *sequence
	pokes     chan struct{} // holds one: a sequence was cancelled, or its caller has taken something
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
	l, err := p.Plan.Start(ctx)
	if err != nil {
		return nil, err
	}
	var devices []string
	for _, s := range p.Stages {
		devices = append(devices, s.Device.Name)
	}
	e := &Engine{
		plan:      p,
		pipeline:  l,
		tokenizer: p.model.Tokenizer,
		vocab:     p.model.Vocab,
		schedule: scheduler{
			pages:   newPages(p.Pages),
			pace:    newPace(devices, p.InFlight(), p.InFlightGiven(), p.MaxBatch()),
			maxSeqs: p.MaxSeqs,
			maxRows: p.MaxBatch(),
			maxOut:  min(p.MaxBatch(), max(p.MaxSeqs, fewestOutputs)),
		},
		live:      map[*sequence]struct{}{},
		arrivals:  make(chan *sequence),
		pokes:     make(chan struct{}, 1),
		questions: make(chan chan Counts),
		ended:     make(chan struct{}),
		draining:  make(chan struct{}),
		closing:   make(chan struct{}),
	}
	e.running.Go(e.run)
	return e, nil
}

// Plan is what the engine was started from.
func (e *Engine) Plan() *Plan { return e.plan }

// Tokenizer turns text into the model's tokens and back.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }

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
	defer close(e.ended)
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
			e.schedule.arrive(s)
		case b, open := <-e.pipeline.Done():
			if !open {
				// Only Close closes the pipeline, and it waits for this goroutine.
				e.fail(errors.New("the pipeline ended"))
				return
			}
			e.receive(b, b.Err())
		case <-e.held:
			e.held, e.waited = nil, true
		case <-e.pokes:
			for s := range e.live {
				if s.cancelled.Load() {
					e.end(s, Cancelled, context.Canceled)
				}
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

// send fills free batches while there are rows for them.
func (e *Engine) send() {
	for {
		rows, enough := e.schedule.ready()
		if rows == 0 || rows < enough && e.wait() {
			return
		}
		select {
		case b := <-e.pipeline.Free():
			e.held, e.waited = nil, false
			f, ok := b.Tag.(*flight)
			if !ok {
				f = new(flight)
				b.Tag = f
			}
			if e.schedule.fill(b, f) == 0 {
				e.pipeline.Release(b) // those who could go wait for pages
				return
			}
			e.flying++
			if err := e.pipeline.Submit(context.Background(), b); err != nil {
				e.receive(b, err)
			}
		default:
			return
		}
	}
}

// wait says whether a small batch should wait for more rows.
func (e *Engine) wait() bool {
	if e.plan.config.maxWait == 0 || e.waited {
		return false
	}
	if e.held == nil {
		e.held = time.After(e.plan.config.maxWait)
	}
	return true
}

// receive deals with a batch that came out of the pipeline, or that failed with
// err.
func (e *Engine) receive(b *stage.Batch, err error) {
	e.flying--
	values := b.Values()
	if err == nil {
		for i := range e.plan.Stages {
			e.schedule.pace.observe(i, b.Rows.N, b.Took(i))
		}
	}
	for _, p := range b.Tag.(*flight).parts {
		s := p.seq
		if err == nil {
			e.schedule.done(s, p.to)
			for range p.outputs {
				if !s.ended {
					e.result(s, values[:e.vocab])
				}
				values = values[e.vocab:]
			}
		} else if !s.ended {
			e.end(s, Failed, err)
		}
		e.schedule.landed(s)
	}
	e.schedule.admit()
	e.pipeline.Release(b)
}

// result deals with one row of logits.
func (e *Engine) result(s *sequence, logits []float32) {
	if s.scored {
		s.outbox.put(step{logits: slices.Clone(logits)})
		if s.scores++; s.scores == s.prompt {
			e.end(s, Length, nil)
		}
		return
	}
	id, err := s.sampler.Sample(logits, s.tokens)
	if err == nil && (id < 0 || int(id) >= e.vocab) {
		err = fmt.Errorf("the sampler chose token %d: the model has tokens 0 to %d", id, e.vocab-1)
	}
	switch {
	case err != nil:
		e.end(s, Failed, err)
	case e.tokenizer.IsEnd(id) && !s.ignoreEnd:
		e.end(s, Stop, nil)
	default:
		s.tokens = append(s.tokens, id)
		text, stopped := s.writer.add(id)
		t := Token{ID: id, Text: text}
		if s.logProbs {
			t.LogProb = logProb(logits, id)
		}
		s.outbox.put(step{Token: t})
		if stopped {
			e.end(s, Stop, nil)
		} else if len(s.tokens) >= s.most {
			e.end(s, Length, nil)
		} else {
			e.schedule.again(s)
		}
	}
}

// end ends a request: with the last of its text, or with its error.
func (e *Engine) end(s *sequence, finish Finish, err error) {
	delete(e.live, s)
	e.schedule.leave(s)
	if err == nil {
		s.outbox.put(step{Token: Token{ID: -1, Text: s.writer.end(), Finish: finish}})
	} else if finish == Failed {
		err = fmt.Errorf("request failed after %d tokens: %w", len(s.tokens)-s.prompt, err)
	}
	s.outbox.close(err)
}
