package stage

import (
	"sync/atomic"
	"time"
)

// Traffic counts the batches that are under way in a pipeline, and for how long
// there were none: a stage that waits then misses nothing. A nil Traffic counts
// nothing. Its methods may be called from any goroutine.
type Traffic struct {
	base    time.Time
	batches atomic.Int64
	left    atomic.Int64 // nanoseconds from base to when the latest batch left
	empty   atomic.Int64 // nanoseconds without a batch, but for those since left
}

// NewTraffic begins to count.
func NewTraffic() *Traffic { return &Traffic{base: time.Now()} }

// Enter says that a batch is about to be sent to the first stage.
func (t *Traffic) Enter() {
	if t != nil && t.batches.Add(1) == 1 {
		t.empty.Add(int64(time.Since(t.base)) - t.left.Load())
	}
}

// Leave says that a batch has come out of the last stage, or was never sent.
func (t *Traffic) Leave() {
	if t != nil {
		t.left.Store(int64(time.Since(t.base))) // before the count: Enter reads it when that is 0
		t.batches.Add(-1)
	}
}

// Batches is how many are under way.
func (t *Traffic) Batches() int {
	if t == nil {
		return 0
	}
	return int(t.batches.Load())
}

// Empty is how long there were no batches, up to the latest Enter.
func (t *Traffic) Empty() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.empty.Load())
}
