// Package traffic counts the batches in a pipeline, and measures for how long there
// were none. A stage that waits for a batch while the whole pipeline is empty is idle
// for want of work; only a stage that waits while there are batches elsewhere has a
// bubble.
package traffic

import (
	"sync/atomic"
	"time"
)

// Counter counts the batches in one pipeline. Its methods may be called from any
// goroutine.
type Counter struct {
	base    time.Time
	batches atomic.Int64
	left    atomic.Int64 // nanoseconds from base to the latest Leave
	empty   atomic.Int64 // nanoseconds without a batch, up to the latest Enter
}

// New returns a counter of a pipeline without batches.
func New() *Counter { return &Counter{base: time.Now()} }

// Enter counts a batch that is about to be sent to the first stage.
func (c *Counter) Enter() {
	if c.batches.Add(1) == 1 {
		c.empty.Add(int64(time.Since(c.base)) - c.left.Load())
	}
}

// Leave takes back an Enter: the batch has come out of the last stage, or could not be
// sent.
func (c *Counter) Leave() {
	c.left.Store(int64(time.Since(c.base))) // before the count: Enter reads it when the count is 0
	c.batches.Add(-1)
}

// Batches returns how many batches are in the pipeline.
func (c *Counter) Batches() int { return int(c.batches.Load()) }

// Empty returns for how long there were no batches, up to the latest Enter.
func (c *Counter) Empty() time.Duration { return time.Duration(c.empty.Load()) }
