package stage

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// A stage that finds its link empty looks again for a while before it parks. To wake
// a parked goroutine on another core takes tens of microseconds, which is longer than
// the layers of a small model take for a batch; what is found by looking is found at
// once. The time is bounded, so that an idle pipeline takes no processor time, and is
// of the order of what a wake-up costs, so that looking in vain at most doubles that.
//
// While it looks, a goroutine yields its processor to any other that can run. It parks
// at once where nothing can be gained: where a stage takes less time for a batch than
// the way to another core, one processor does the work of all stages fastest; and with
// more stages awake than there are processors, one that looks would take a processor
// from one that works.

// awake counts the receivers of such links, in all pipelines of the process, that work
// or look for work. A receiver is counted from its first Recv to one that fails, but
// not while it is parked.
var awake atomic.Int32

const (
	looks     = 512                  // yields of the processor before a goroutine parks: some 100 µs
	polls     = 16                   // looks at the link for each of them
	leastWork = 5 * time.Microsecond // that a stage works on a batch, so that it looks for the next
)

// Link returns a link to or from the stage that holds up to depth batches; see NewLink.
// Whoever receives from it looks for a batch for a while before it parks.
func (s *Stage) Link(depth int) Link {
	if depth == 0 {
		return NewLink(depth) // its sender parks too
	}
	return &watched{channel: make(channel, depth), meter: &s.meter}
}

// watched is a link whose receiver may look for batches.
type watched struct {
	channel
	meter   *meter // of the stage at one of its ends
	counted bool   // the receiver is, among the awake
}

func (w *watched) Recv(ctx context.Context) (*Batch, error) {
	w.count(true)
	b, err := w.look(ctx)
	if err != nil {
		w.count(false)
	}
	return b, err
}

func (w *watched) look(ctx context.Context) (*Batch, error) {
	for i := 0; i < looks && w.worthwhile(); i++ {
		for range polls {
			select {
			case b, open := <-w.channel:
				if !open {
					return nil, ErrClosed
				}
				return b, nil
			default:
			}
		}
		runtime.Gosched()
	}
	if len(w.channel) > 0 {
		return w.channel.Recv(ctx)
	}
	w.count(false)
	defer w.count(true)
	return w.channel.Recv(ctx)
}

func (w *watched) worthwhile() bool {
	return w.meter.recent.Load() >= int64(leastWork) && int(awake.Load()) <= runtime.GOMAXPROCS(0)
}

func (w *watched) count(in bool) {
	switch {
	case in && !w.counted:
		awake.Add(1)
	case !in && w.counted:
		awake.Add(-1)
	}
	w.counted = in
}
