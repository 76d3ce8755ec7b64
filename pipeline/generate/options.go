package generate

import (
	"fmt"
	"time"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
)

// Option changes how an engine is made.
type Option func(*config) error

type config struct {
	context  int // 0: the model's, at most defaultContext
	maxSeqs  int
	backlog  int
	kv       kernels.Type
	kvMemory int64 // negative: what is left
	maxWait  time.Duration
	pipeline []pipeline.Option
}

const (
	defaultContext = 4096
	mostContext    = 1 << 24
)

func newConfig(options []Option) (config, error) {
	c := config{maxSeqs: 64, backlog: 1024, kv: kernels.F16, kvMemory: -1}
	for _, o := range options {
		if err := o(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// WithPipeline passes options on to the pipeline: devices, packing, batch sizes.
func WithPipeline(options ...pipeline.Option) Option {
	return func(c *config) error { c.pipeline = append(c.pipeline, options...); return nil }
}

// WithContext sets the longest sequence, prompt and continuation together, in
// tokens. The default is the model's own length, at most 4096. More than the
// model's own is allowed; the text then gets worse.
func WithContext(tokens int) Option {
	return func(c *config) error {
		if tokens < 1 || tokens > mostContext {
			return fmt.Errorf("context of %d tokens: it may be from 1 to %d", tokens, mostContext)
		}
		c.context = tokens
		return nil
	}
}

// WithMaxSeqs sets how many requests run at once; others wait. The default is 64.
func WithMaxSeqs(n int) Option {
	return func(c *config) error {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("%d sequences at once: it may be from 1 to %d", n, 1<<16)
		}
		c.maxSeqs = n
		return nil
	}
}

// WithBacklog sets how many requests may wait for their turn inside the engine.
// A caller beyond that blocks in its own call, under its context. The default
// is 1024.
func WithBacklog(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("a backlog of %d requests: it must be at least 1", n)
		}
		c.backlog = n
		return nil
	}
}

// WithKV sets how keys and values are stored: F32, F16 (the default) or Q8_0.
func WithKV(t kernels.Type) Option {
	return func(c *config) error {
		if t != kernels.F32 && t != kernels.F16 && t != kernels.Q8_0 {
			return fmt.Errorf("key/value cache of %v: it may be F32, F16 or Q8_0", t)
		}
		c.kv = t
		return nil
	}
}

// WithKVMemory sets the bytes for keys and values on all devices together. The
// default is what is left, at most what all sequences at full length need.
func WithKVMemory(bytes int64) Option {
	return func(c *config) error {
		if bytes < 0 {
			return fmt.Errorf("key/value memory of %d bytes", bytes)
		}
		c.kvMemory = bytes
		return nil
	}
}

// WithMaxWait lets a batch wait up to d for more rows, until it has its share of
// what as many requests as WithMaxSeqs allows would give. The default is not to
// wait.
func WithMaxWait(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("max wait of %v", d)
		}
		c.maxWait = d
		return nil
	}
}
