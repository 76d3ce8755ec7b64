package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Limits of a Pipeline where nothing else is asked.
const (
	DefaultBacklog      = 1024 // calls that wait
	DefaultFailureLimit = 8    // batches
)

// WithInput says that the first layer reads rows of so many float32s, which every
// batch brings along: the rows of Do and Map. New needs it.
func WithInput(width int) Option {
	return func(c *Config) error { c.Input = width; return positive("input width", width, 1) }
}

// WithMaxWait lets a batch that isn't full wait up to d for more rows. The
// default is not to wait: rows then gather while the batches before them are on
// their way.
func WithMaxWait(d time.Duration) Option {
	return func(c *Config) error {
		if d < 0 {
			return fmt.Errorf("max wait of %v", d)
		}
		c.MaxWait = d
		return nil
	}
}

// WithBacklog sets how many calls wait for their turn. A caller beyond that
// blocks under its context, or with TryDo gets ErrBusy. The default is
// DefaultBacklog.
func WithBacklog(calls int) Option {
	return func(c *Config) error { c.Backlog = calls; return positive("backlog", calls, 1) }
}

// WithAhead sets how many rows Map and MapUnordered read ahead of the loop that
// takes their results; 0, the default, means as many as fill the batches in
// flight. An element of more rows than that goes alone.
func WithAhead(rows int) Option {
	return func(c *Config) error { c.Ahead = rows; return positive("rows ahead", rows, 0) }
}

// WithIsolation sets whether a batch with rows of several calls that fails, because a
// layer returned an error, panicked or ended its goroutine, is tried again in halves,
// so that only those calls fail whose rows make it fail. The default is true. Of a
// batch with rows of n calls come fewer than 2n further ones, and the rows of a call
// are computed at most 1+log2(n) times. Turn it off if a layer may not compute a row
// twice: then all calls with rows in such a batch fail.
func WithIsolation(on bool) Option {
	return func(c *Config) error { c.Isolate = on; return nil }
}

// WithFailureLimit sets how many batches may fail one after the other before the
// pipeline tries a row of its own, and is failing if that fails too; see
// FailingError. The default is DefaultFailureLimit, 0 means no limit.
func WithFailureLimit(batches int) Option {
	return func(c *Config) error { c.FailureLimit = batches; return positive("failure limit", batches, 0) }
}

// WithLogger has the pipeline log what it does: loading and starting at Info, a
// batch that fails at Warn, that it is failing at Error, closing at Debug. Nil,
// the default, logs nothing.
func WithLogger(l *slog.Logger) Option {
	return func(c *Config) error { c.Logger = l; return nil }
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

var errNoInput = errors.New("a pipeline for rows needs their width: give pipeline.WithInput")
