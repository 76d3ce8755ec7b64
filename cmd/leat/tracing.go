package main

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

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
	out *output
}

// newTracing begins a trace. It is to be ended with commit or discard.
func newTracing(path string) (*tracing, error) {
	out, err := create(path)
	if err != nil {
		return nil, err
	}
	return &tracing{trace.New(out), out}, nil
}

// commit puts the trace in its place.
func (t *tracing) commit() error {
	defer t.out.discard()
	if err := t.Trace.Close(); err != nil {
		return err
	}
	return t.out.commit()
}

// discard leaves nothing behind.
func (t *tracing) discard() {
	_ = t.Trace.Close()
	t.out.discard()
}

// checkTrace refuses a trace that would take the place of another file of the
// command.
func checkTrace(path string, flags *pflag.FlagSet) (err error) {
	if path == standardOutput {
		return usage("--trace -: a trace goes to a file, which https://ui.perfetto.dev opens")
	}
	flags.Visit(func(f *pflag.Flag) {
		other := f.Value.String()
		if f.Name == "trace" || err != nil {
			return
		}
		mine, theirs := regular(path), regular(other)
		if other == path || mine != nil && theirs != nil && os.SameFile(mine, theirs) {
			err = usage("--trace %s and --%s %s are the same file: it would be overwritten", path, f.Name, other)
		}
	})
	return err
}
