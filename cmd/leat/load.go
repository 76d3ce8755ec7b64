package main

import (
	"context"
	"fmt"
	"io"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// openModel opens the file that -m names.
func openModel(ctx context.Context, path string) (*model.Model, error) {
	return openFile(ctx, path, model.Open)
}

// openFile opens a file with open. It returns early with the error of ctx if that ends
// first, as open may block for ever on a pipe without a writer or on a disk that
// doesn't respond.
func openFile[T io.Closer](ctx context.Context, path string, open func(path string) (T, error)) (T, error) {
	if err := given(path); err != nil {
		var none T
		return none, err
	}
	return files.Await(ctx, func() (T, error) { return open(path) }, func(late T) { _ = late.Close() })
}

// start loads the model as the flags say and starts an engine, which is the
// caller's to close. The model may be closed when start returns. Watchers are told
// of every batch, as is a trace.
func (f *pipelineFlags) start(ctx context.Context, stderr io.Writer, m *model.Model, watchers ...pipeline.Observer) (*engine, error) {
	f.warn(stderr, m)
	e, err := f.load(ctx, stderr, m, watchers...)
	if err == nil {
		f.tellUnused(stderr, e.Plan())
	}
	return e, err
}

// tellUnused names the devices that were asked for and have no stage.
func (f *pipelineFlags) tellUnused(stderr io.Writer, p *generate.Plan) {
	if !f.command.Flags().Changed("devices") {
		return
	}
	for _, u := range p.Unused {
		fmt.Fprintf(stderr, "leat: %s\n", oneLine(unusedText(u)))
	}
}

// load is start without warnings. On a terminal a bar shows the progress.
func (f *pipelineFlags) load(ctx context.Context, stderr io.Writer, m *model.Model, watchers ...pipeline.Observer) (_ *engine, err error) {
	b := newBar(stderr, "loading")
	defer b.clear()
	e := new(engine)
	options := []pipeline.Option{pipeline.WithProgress(b.bytes)}
	if f.trace != "" {
		if e.tracing, err = newTracing(ctx, f.trace); err != nil {
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

// plan returns the plan that start would start.
func (f *pipelineFlags) plan(ctx context.Context, stderr io.Writer, m *model.Model) (*generate.Plan, error) {
	f.warn(stderr, m)
	return f.place(ctx, stderr, m)
}

// place plans, and tells of layers that go elsewhere than a placement says.
func (f *pipelineFlags) place(ctx context.Context, stderr io.Writer, m *model.Model, more ...pipeline.Option) (*generate.Plan, error) {
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	measured, err := f.calibration()
	if err != nil {
		return nil, err
	}
	p, err := generate.NewPlan(ctx, m, f.options(append(more, measured...)...)...)
	if err != nil {
		return nil, uncalibrated(err)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(stderr, "leat: %s\n", oneLine(note))
	}
	return p, nil
}

// prepare checks the flags and reads the placement, once.
func (f *pipelineFlags) prepare(ctx context.Context) error {
	if err := f.check(); err != nil || f.placement == "" || f.placed != nil {
		return err
	}
	in, err := files.Open(ctx, f.placement, f.stdin())
	if err != nil {
		return fmt.Errorf("placement: %w", err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, placement.MaxBytes+1))
	if err != nil {
		return fmt.Errorf("placement: %w", err)
	}
	name := f.placement
	if name == files.Standard {
		name = "standard input"
	}
	f.placed, err = placement.Parse(name, data)
	return err
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
