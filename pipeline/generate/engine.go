// Package generate runs a language model on a pipeline. An [Engine] continues the texts of
// many requests at the same time; requests begin and end while others are running.
//
//	e, err := generate.Open(ctx, "model.gguf", pipeline.WithDevices("cuda:0,cpu"))
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	for token, err := range e.Stream(ctx, generate.Request{Prompt: "Once upon a time", MaxTokens: 64}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(token.Text)
//	}
//
// [Engine.Generate] returns a whole continuation, and [Engine.Logits] the model's logits for
// a given text. [Engine.Shutdown] waits for running requests, and [Engine.Close] ends them.
// [NewPlan] says which layers would be on which device, without loading the model.
//
// # A server
//
// The methods of an engine may be called from any goroutine, such as those of a server's
// requests. An engine runs as many requests at the same time as [WithMaxSeqs] says, and
// keeps as many waiting as [pipeline.WithBacklog] says. Beyond that, [Engine.Stream] blocks
// and [Engine.TryStream] yields [ErrBusy]. Errors that are the caller's mistake wrap
// [ErrRequest]. [Engine.Err] is for readiness probes, and package generate/enginemetrics
// exports [Engine.Stats] to Prometheus.
//
// # How it works
//
// An Engine has no central goroutine. One mutex guards its state, which is a
// [schedule.Scheduler] and the requests. The goroutine of the last stage, which has the
// results of a batch, draws the tokens, fills the next batch and sends it to the first
// stage, so that no other goroutine has to wake between a result and the next batch. A
// caller adds its own request. A caller's [Sampler] and the body of its loop run on the
// caller's own goroutine, and can delay that request alone.
//
// The result of a request does not depend on which other requests run. Package schedule
// decides which rows a batch has, package sampling draws tokens, and package text turns
// tokens into text. This package knows nothing of architectures, which are in package
// model, and nothing of devices.
package generate

import (
	"context"
	"errors"
	"io"
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

	outgoing chan *stage.Batch // to the sender, which waits while the link into the pipeline is full; holds one batch
	sender   sync.WaitGroup
	refusing chan struct{} // closed: no request is accepted any more
	idle     chan struct{} // closed: the same, and no request is left
	ending   sync.Once
	over     chan struct{} // closed: everything is freed
	failed   error         // the result of Close, set before over is closed

	mu       sync.Mutex // guards what follows
	schedule *schedule.Scheduler
	live     map[*request]struct{} // requests that have not ended
	blocked  blocked               // of these, those beyond the backlog
	waits    wait                  // for more rows
	maxWait  time.Duration         // for which a batch waits for them
	failing  []bool                // routes that the scheduler was told not to use
	sending  bool                  // the sender has a batch
	wakes    []*request            // whose callers have something to take; see unlock
	spare    []*request            // memory for it
	refuses  bool                  // no request is accepted any more
	closed   bool                  // no batch is filled any more
}

// Open opens a model file, loads it and starts an engine, which the caller ends with
// [Engine.Close] or [Engine.Shutdown]. ctx limits the loading only. The file is closed
// again when the weights are on their devices. Errors are those of [model.Open],
// [NewPlan] and [Plan.Start]. If Open returns an error, it has freed everything.
func Open(ctx context.Context, path string, options ...Option) (*Engine, error) {
	m, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	return started(m, func() (*Engine, error) { return New(ctx, m, options...) })
}

// started starts an engine from a model and closes the model. It returns an engine or an
// error, never both.
func started(m io.Closer, start func() (*Engine, error)) (*Engine, error) {
	e, err := start()
	if failed := m.Close(); failed != nil && err == nil {
		return nil, errors.Join(failed, e.Close())
	}
	return e, err
}

// New is Open for a model that is open already. The model still belongs to the caller, who
// may close it when New has returned.
func New(ctx context.Context, m *model.Model, options ...Option) (*Engine, error) {
	p, err := NewPlan(ctx, m, options...)
	if err != nil {
		return nil, err
	}
	return p.Start(ctx)
}

// Start loads the plan's model and starts an engine, which the caller ends with
// [Engine.Close] or [Engine.Shutdown]. ctx limits the loading only.
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
		refusing:  make(chan struct{}),
		idle:      make(chan struct{}),
		over:      make(chan struct{}),
	}
	var err error
	if e.line, err = pipeline.OpenLine(ctx, p.Plan, pipeline.Handler{Finished: e.finished, Changed: e.changed}); err != nil {
		return nil, err
	}
	e.sender.Go(e.send)
	e.mu.Lock()
	e.unlock() // Stats knows the pages from now on
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

// Plan returns the plan that the engine was started from. The caller must not change it.
func (e *Engine) Plan() *Plan { return e.plan }

// Tokenizer returns the model's tokenizer, which turns text into tokens and back.
func (e *Engine) Tokenizer() tokenizer.Tokenizer { return e.tokenizer }

// SetMaxWait replaces the value of [pipeline.WithMaxWait], also for a batch that is waiting
// now. A caller that will make no further requests sets it to 0, so that the last batches
// don't wait in vain.
func (e *Engine) SetMaxWait(d time.Duration) {
	e.mu.Lock()
	defer e.leave()
	e.maxWait = max(0, d)
	e.step()
}

// Err returns nil while the engine accepts requests. Otherwise it returns the error that
// requests get: [ErrClosed], or one that wraps [pipeline.ErrFailing] while batches fail
// on every route. It doesn't wait for the engine's other work, so that it suits a
// readiness probe.
func (e *Engine) Err() error {
	select {
	case <-e.refusing:
		return ErrClosed
	default:
		return e.line.Err()
	}
}
