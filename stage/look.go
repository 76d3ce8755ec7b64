package stage

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// A goroutine that receives from an empty link polls the link for a while before it parks.
// Waking a parked goroutine on another core takes tens of microseconds, which is longer
// than the layers of a small model take for a batch. The time of polling is bounded, so
// that an idle pipeline uses no processor. It is about the time that a wake-up takes, so
// that polling in vain at most doubles the latency.
//
// While it polls, a goroutine yields its processor to others that can run. It parks at once
// in two cases. If the stage takes less time for a batch than sending the batch to another
// core takes, one processor does the work of all stages fastest. If more stages are awake
// than there are processors, polling would take a processor from a stage that works.

// awake counts the receivers of watched links, in all pipelines of the process, that work
// or poll. A receiver is counted from its first Recv until a Recv fails, except while it is
// parked.
var awake atomic.Int32

const (
	looks     = 512                  // how many times a goroutine yields before it parks: about 100 µs
	polls     = 16                   // how many times it polls the link before it yields
	leastWork = 5 * time.Microsecond // the shortest time for a batch with which a stage polls
)

// Link returns a link into or out of the stage that holds up to depth batches; see
// [NewLink]. Its receiver polls it for a while before it parks.
func (s *Stage) Link(depth int) Link {
	if depth == 0 {
		return NewLink(depth) // the sender has to wait for the receiver anyway
	}
	return &watched{channel: make(channel, depth), meter: &s.meter}
}

// watched is a link whose receiver may poll.
type watched struct {
	channel
	meter   *meter // of the stage at one end of the link
	counted bool   // the receiver is counted as awake
}

func (w *watched) Recv(ctx context.Context) (*Batch, error) {
	w.count(true)
	b, err := w.look(ctx)
	if err != nil {
		w.count(false)
	}
	return b, err
}

// look receives a batch, polling the link before it parks.
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

// worthwhile reports whether the receiver may poll.
func (w *watched) worthwhile() bool {
	return w.meter.recent.Load() >= int64(leastWork) && int(awake.Load()) <= runtime.GOMAXPROCS(0)
}

// count counts the receiver as awake, or as not awake.
func (w *watched) count(in bool) {
	switch {
	case in && !w.counted:
		awake.Add(1)
	case !in && w.counted:
		awake.Add(-1)
	}
	w.counted = in
}
