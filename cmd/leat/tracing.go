package main

import (
	"context"
	"errors"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/trace"
)

// engine is an engine with the trace that --trace asks for.
type engine struct {
	*generate.Engine
	tracing *tracing // nil: none
}

// Close closes the engine, and then the trace, which is whole however the command
// ends.
func (e *engine) Close() error {
	err := e.Engine.Close()
	if e.tracing != nil {
		err = errors.Join(err, e.tracing.commit())
	}
	return err
}

// tracing is a trace on its way to a file.
type tracing struct {
	*trace.Trace
	out *files.Created
}

// newTracing begins a trace. It is to be ended with commit or discard.
func newTracing(ctx context.Context, path string) (*tracing, error) {
	out, err := files.Create(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	return &tracing{trace.New(out), out}, nil
}

// commit puts the trace in its place.
func (t *tracing) commit() error {
	defer t.out.Discard()
	if err := t.Trace.Close(); err != nil {
		return err
	}
	return t.out.Commit()
}

// discard leaves nothing behind.
func (t *tracing) discard() {
	_ = t.Trace.Close()
	t.out.Discard()
}
