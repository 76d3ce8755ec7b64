package generate

import (
	"fmt"
	"time"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
)

// Option is a setting of an engine: an option of this package, or a [pipeline.Option] that
// says which devices the stages are on and how they run.
//
//	e, err := generate.Open(ctx, "model.gguf", pipeline.WithDevices("cuda:0,cpu"), generate.WithContext(8192))
//
// Some options of package pipeline have a meaning of their own here:
//
//   - [pipeline.WithBacklog] sets how many requests may wait to be admitted. The caller of
//     a further request blocks until one leaves the backlog or its context ends, or gets
//     [ErrBusy] from [Engine.TryStream]. The default is [pipeline.DefaultBacklog].
//   - [pipeline.WithMaxWait] makes a batch wait for more rows until it has as many as it
//     would have if [WithMaxSeqs] requests were running. The default is not to wait.
//   - [pipeline.WithObserver] adds an observer that is called while the engine's state is
//     locked. It may call [Engine.Stats], [Engine.Err], [Engine.Plan], [Engine.Tokenizer]
//     and [Engine.Tokens]. Any other method of the engine would wait for the observer to
//     return, and so block forever; call such a method from another goroutine. A panic of
//     an observer ends the program.
//
// Options that have an effect only in a [pipeline.Pipeline], such as [pipeline.WithInput],
// are errors.
type Option interface {
	// EngineOption marks the options of both packages.
	EngineOption()
}

// option is an option of this package.
type option func(*config) error

// EngineOption implements Option.
func (option) EngineOption() {}

type config struct {
	context  int // 0: the model's, at most defaultContext
	maxSeqs  int
	kv       kernels.Type
	kvMemory int64 // negative: the memory that is left
	pipeline []pipeline.Option

	// What the options of package pipeline say about gathering.
	maxWait time.Duration
	backlog int
}

const (
	defaultContext = 4096
	mostContext    = 1 << 24
)

func newConfig(options []Option) (config, error) {
	c := config{maxSeqs: 64, kv: kernels.F16, kvMemory: -1}
	for _, o := range options {
		switch o := o.(type) {
		case pipeline.Option:
			c.pipeline = append(c.pipeline, o)
		case option:
			if err := o(&c); err != nil {
				return c, err
			}
		default:
			return c, fmt.Errorf("a %T is not an option of package generate or pipeline", o)
		}
	}
	return c, nil
}

// gather sets what the options of package pipeline say about gathering.
func (c *config) gather(s *pipeline.Site) error {
	g, err := s.Gathering()
	c.maxWait, c.backlog = g.MaxWait, g.Backlog
	return err
}

// WithContext sets the length of the longest sequence, prompt and continuation
// together, in tokens. The default is the length that the model was trained for, but at
// most 4096. A context longer than the model was trained for is allowed, but makes the
// text worse.
func WithContext(tokens int) Option {
	return option(func(c *config) error {
		if tokens < 1 || tokens > mostContext {
			return fmt.Errorf("context of %d tokens: it may be from 1 to %d", tokens, mostContext)
		}
		c.context = tokens
		return nil
	})
}

// WithMaxSeqs sets how many requests run at the same time. Further requests wait. The
// default is 64.
func WithMaxSeqs(n int) Option {
	return option(func(c *config) error {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("%d sequences at once: it may be from 1 to %d", n, 1<<16)
		}
		c.maxSeqs = n
		return nil
	})
}

// WithKV sets the type in which keys and values are stored: F32, F16 (the default) or
// Q8_0.
func WithKV(t kernels.Type) Option {
	return option(func(c *config) error {
		if t != kernels.F32 && t != kernels.F16 && t != kernels.Q8_0 {
			return fmt.Errorf("key/value cache of %v: it may be F32, F16 or Q8_0", t)
		}
		c.kv = t
		return nil
	})
}

// WithKVMemory sets how many bytes are allocated for keys and values, on all devices
// together. The default is the memory that is left, but not more than all sequences need at
// full length.
func WithKVMemory(bytes int64) Option {
	return option(func(c *config) error {
		if bytes < 0 {
			return fmt.Errorf("key/value memory of %d bytes: it may not be negative", bytes)
		}
		c.kvMemory = bytes
		return nil
	})
}
