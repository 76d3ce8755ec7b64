package main

import (
	"context"
	"fmt"
	"io"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// openModel opens the file that -m names.
func openModel(path string) (*model.Model, error) {
	if err := given(path); err != nil {
		return nil, err
	}
	return model.Open(path)
}

// start loads the model as the flags say and starts an engine, which is the
// caller's to close. The model may be closed when start returns. Watchers are told
// of every batch, as is a trace.
func (f *pipelineFlags) start(ctx context.Context, stderr io.Writer, m *model.Model, watchers ...pipeline.Observer) (*engine, error) {
	f.warn(stderr, m)
	return f.load(ctx, stderr, m, watchers...)
}

// load is start without a warning. On a terminal a bar shows how far it is.
func (f *pipelineFlags) load(ctx context.Context, stderr io.Writer, m *model.Model, watchers ...pipeline.Observer) (_ *engine, err error) {
	b := newBar(stderr, "loading")
	defer b.clear()
	e := new(engine)
	options := []pipeline.Option{pipeline.WithProgress(b.bytes)}
	if f.trace != "" {
		if err := f.check(); err != nil {
			return nil, err
		}
		if e.tracing, err = newTracing(f.trace); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				e.tracing.discard()
			}
		}()
		watchers = append(watchers, e.tracing)
	}
	if len(watchers) > 0 {
		options = append(options, pipeline.WithObserver(observers(watchers)))
	}
	p, err := f.place(ctx, stderr, m, options...)
	if err != nil {
		return nil, err
	}
	e.Engine, err = p.Start(ctx)
	return e, err
}

// plan is what start would start.
func (f *pipelineFlags) plan(ctx context.Context, stderr io.Writer, m *model.Model) (*generate.Plan, error) {
	f.warn(stderr, m)
	return f.place(ctx, stderr, m)
}

// place plans, and tells of layers that go elsewhere than a placement says.
func (f *pipelineFlags) place(ctx context.Context, stderr io.Writer, m *model.Model, more ...pipeline.Option) (*generate.Plan, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p, err := generate.NewPlan(ctx, m, f.options(more...)...)
	if err != nil {
		return nil, err
	}
	for _, note := range p.Notes {
		fmt.Fprintf(stderr, "leat: %s\n", oneLine(note))
	}
	return p, nil
}

// warn tells of what is allowed but may disappoint.
func (f *pipelineFlags) warn(stderr io.Writer, m *model.Model) {
	if f.context > m.Context {
		fmt.Fprintf(stderr, "leat: warning: --ctx %d is more than the %d tokens that the model was trained for: text gets worse beyond them\n", f.context, m.Context)
	}
}

// closing closes c at the end of a function that returns *err. The first error
// stays.
func closing(c io.Closer, err *error) {
	if failed := c.Close(); *err == nil {
		*err = failed
	}
}
