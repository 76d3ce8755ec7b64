package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// ErrFailing is what every *FailingError is.
var ErrFailing = errors.New("pipeline failing")

// FailingError says that a pipeline takes no calls, because its batches all fail:
// as many as WithFailureLimit allows, one after the other, and then a row of zeros
// that the pipeline sent to see whether it is the callers' rows. It takes calls
// again when Warmup passes.
type FailingError struct {
	Batches int   // that failed
	Err     error // that of the last one, a *stage.Error
}

// Error implements error.
func (e *FailingError) Error() string {
	return fmt.Sprintf("%v: %d batches failed in a row, the last one: %v", ErrFailing, e.Batches, e.Err)
}

// Unwrap returns ErrFailing and the last batch's error.
func (e *FailingError) Unwrap() []error { return []error{ErrFailing, e.Err} }

// health is whether batches pass.
type health struct {
	limit   int
	log     *slog.Logger
	failing atomic.Pointer[FailingError]

	mu       sync.Mutex
	failures int // since a batch passed
	cause    error
}

// record counts a batch, and returns true when it makes the pipeline suspect.
func (h *health) record(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.failures, h.cause = 0, nil
		if h.failing.Swap(nil) != nil {
			h.log.Info("pipeline works again")
		}
		return false
	}
	h.failures++
	h.cause = err
	return h.doubtful()
}

// suspect says that the callers' batches all fail, and that the pipeline should
// try one of its own.
func (h *health) suspect() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubtful()
}

func (h *health) doubtful() bool {
	return h.limit > 0 && h.failures >= h.limit && h.failing.Load() == nil
}

// judge makes the pipeline failing where even its own batch didn't pass.
func (h *health) judge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doubtful() {
		f := &FailingError{h.failures, h.cause}
		h.failing.Store(f)
		h.log.Error("pipeline failing", "batches", f.Batches, "error", f.Err)
	}
}

// err is a *FailingError, or nil.
func (h *health) err() error {
	if f := h.failing.Load(); f != nil {
		return f
	}
	return nil
}
