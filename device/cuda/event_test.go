package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

func TestWaitEndsWithItsContext(t *testing.T) {
	d := oneGPU(t, "slow:0@300ms")
	q := newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	e := newEvent(t, q)
	within(q, func() {
		add.launch(q, x, x)
		q.Record(e)
	})
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, e.Wait(ctx), context.Canceled)
	brief, stop := context.WithTimeout(background, time.Millisecond)
	defer stop()
	require.ErrorIs(t, e.Wait(brief), context.DeadlineExceeded)
	require.False(t, e.Done(), "the kernel still runs")
	require.NoError(t, e.Wait(background))
	require.NoError(t, e.Wait(ctx), "it is done, so the context doesn't matter")
	began, ended := e.Span()
	require.GreaterOrEqual(t, ended.Sub(began), 250*time.Millisecond)
	require.Less(t, ended.Sub(began), 5*time.Second)
}

// Where it is the wait that fails, the event is done only when the work is: what the
// kernel reads and writes may be freed then, which the emulator would report before.
func TestAWaitThatFails(t *testing.T) {
	d := oneGPU(t, "slow:0@50ms,cuEventSynchronize:2=1") // the first is of the visit's mark
	q := newQueue(t, d)
	x, err := d.Alloc(4)
	require.NoError(t, err)
	add := newAdder(t, d, 1)
	e := newEvent(t, q)
	within(q, func() {
		add.launch(q, x, x)
		q.Record(e)
	})
	require.ErrorContains(t, e.Wait(background), "cuda:0: cuEventSynchronize: CUDA_ERROR_INVALID_VALUE")
	require.NoError(t, x.Free())
	require.NoError(t, d.Lost())
	require.NoError(t, outcomeOf(t, q), "the queue goes on")
}

func TestManyWaitForOneEvent(t *testing.T) {
	d := oneGPU(t, "slow:0@5ms")
	q := newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	e := newEvent(t, q)
	broken := errors.New("broken")
	for range 5 {
		within(q, func() {
			add.launch(q, x, x)
			q.Fail(broken)
			q.Record(e)
		})
		var waiting sync.WaitGroup
		for i := range 16 {
			ctx, cancel := context.WithCancel(background)
			waiting.Go(func() {
				defer cancel()
				if err := e.Wait(ctx); i%2 == 0 && err != broken || i%2 == 1 && err != broken && err != context.Canceled {
					t.Errorf("waiter %d got %v", i, err)
				}
			})
			if i%2 == 1 {
				cancel()
			}
		}
		waiting.Wait()
	}
}

func TestAnEventRecordedAgainIsWaitedForFirst(t *testing.T) {
	d := oneGPU(t, "slow:0@50ms")
	q, other := newQueue(t, d), newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	e, f := newEvent(t, q), newEvent(t, other)
	broken := errors.New("broken")
	within(q, func() {
		add.launch(q, x, x)
		q.Fail(broken)
		q.Record(e)
	})
	within(other, func() {
		other.After(e) // its first recording
		other.Record(f)
	})
	within(q, func() {
		add.launch(q, x, x)
		q.Record(e)
	})
	require.NoError(t, e.Wait(background))
	require.Equal(t, broken, f.Wait(background), "the error of the recording that was followed")
}

// Who follows an event gets the error of the recording that it followed, though it is
// slow and the event has been recorded again, with and without an error, meanwhile.
func TestAFollowerGetsItsOwnRecording(t *testing.T) {
	d := oneGPU(t, "slow:0@20ms")
	a, b := newQueue(t, d), newQueue(t, d)
	x, y := newBuffer(t, d, 4), newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	e := newEvent(t, a)
	var followed []*Event
	failing := func(i int) error {
		if i%2 == 0 {
			return fmt.Errorf("broken in round %d", i)
		}
		return nil
	}
	for i := range 4 {
		f := newEvent(t, b)
		within(b, func() { add.launch(b, y, y) })
		within(a, func() {
			add.launch(a, x, x)
			a.Fail(failing(i))
			a.Record(e)
		})
		within(b, func() {
			b.After(e)
			b.Record(f)
		})
		followed = append(followed, f)
		require.Equal(t, failing(i), e.Wait(background))
	}
	for i, f := range followed {
		require.Equal(t, failing(i), f.Wait(background), "round %d", i)
	}
}

func TestQueuesThatFollowEachOther(t *testing.T) {
	d := oneGPU(t, "slow:0@1ms")
	const queues, rounds = 4, 25
	x := newBuffer(t, d, 4)
	one := newBuffer(t, d, 4)
	var qs []*Queue
	var es []*Event
	for range queues {
		qs = append(qs, newQueue(t, d))
		es = append(es, newEvent(t, qs[len(qs)-1]))
	}
	upload(t, qs[0], one, floatBytes(1))
	add := newAdder(t, d, 1)
	var last device.Event = device.Done
	for i := range queues * rounds {
		q, e := qs[i%queues], es[i%queues]
		within(q, func() {
			q.After(last)
			add.launch(q, x, one)
			q.Record(e)
		})
		last = e
	}
	require.NoError(t, last.Wait(background))
	require.Equal(t, floatBytes(queues*rounds), download(t, qs[0], x, 4))
}

func TestSpanLeavesOutWhatTheWorkWaitsFor(t *testing.T) {
	d := oneGPU(t, "slow:0@200ms")
	q := newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	first, second := newEvent(t, q), newEvent(t, q)
	for _, e := range []*Event{first, second} { // at once, one behind the other
		within(q, func() {
			add.launch(q, x, x)
			q.Record(e)
		})
	}
	require.NoError(t, second.Wait(background))
	_, firstEnded := first.Span()
	began, ended := second.Span()
	require.False(t, began.Before(firstEnded))
	require.Less(t, ended.Sub(began), 390*time.Millisecond, "the first's time isn't the second's")
	require.GreaterOrEqual(t, ended.Sub(began), 100*time.Millisecond)

	within(q, func() { q.Record(first) })
	require.NoError(t, first.Wait(background))
	began, ended = first.Span()
	require.Less(t, ended.Sub(began), 190*time.Millisecond, "nothing was enqueued")
}
