package cpu

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

func newEvent(t testing.TB, q *Queue) device.Event {
	t.Helper()
	e, err := q.NewEvent()
	require.NoError(t, err)
	return e
}

func newBuffer(t testing.TB, q *Queue, n int64) device.Buffer {
	t.Helper()
	b, err := q.device.Alloc(n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Free()) })
	return b
}

func TestBytesGoUpAndDown(t *testing.T) {
	q := newQueue(t, "cpu")
	b := newBuffer(t, q, 8)
	q.Begin()
	q.Upload(b, 2, []byte{1, 2, 3})
	q.Upload(b, 8, nil)
	got := make([]byte, 8)
	q.Download(got, b, 0)
	q.End()
	require.NoError(t, q.Err())
	require.Equal(t, []byte{0, 0, 1, 2, 3, 0, 0, 0}, got)
}

func TestCopiesStayInsideTheBuffer(t *testing.T) {
	q := newQueue(t, "cpu")
	b := newBuffer(t, q, 8)
	for _, offset := range []int64{-1, 7, 8, 9, math.MaxInt64, math.MinInt64} {
		q.Upload(b, offset, []byte{9, 9})
		require.ErrorContains(t, q.Take(), "an upload of 2 bytes at offset")
		q.Download(make([]byte, 2), b, offset)
		require.ErrorContains(t, q.Take(), "a download of 2 bytes at offset")
	}
	require.Equal(t, make([]byte, 8), b.Bytes())

	gone, err := q.device.Alloc(8)
	require.NoError(t, err)
	require.NoError(t, gone.Free())
	q.Upload(gone, 0, []byte{1})
	require.ErrorContains(t, q.Take(), "the buffer was freed")
}

func TestAnErrorGoesToTheNextEvent(t *testing.T) {
	q := newQueue(t, "cpu")
	b := newBuffer(t, q, 1)
	ctx := context.Background()
	first, second := newEvent(t, q), newEvent(t, q)
	require.NoError(t, first.Wait(ctx), "a new event is done")

	broken := errors.New("broken")
	q.Fail(nil)
	require.False(t, q.Failed())
	q.Fail(broken)
	q.Fail(errors.New("later"))
	require.True(t, q.Failed())
	require.Equal(t, broken, q.Err())
	q.Upload(b, 0, []byte{1})
	q.Parallel(1, &countJob{})
	require.Equal(t, []byte{0}, b.Bytes(), "what follows is skipped")

	q.Record(first)
	require.False(t, q.Failed(), "after that the queue is as new")
	require.NoError(t, q.Err())
	q.Upload(b, 0, []byte{1})
	require.Equal(t, []byte{1}, b.Bytes())
	q.Record(second)
	require.Equal(t, broken, first.Wait(ctx))
	require.Equal(t, broken, first.Wait(ctx), "however often")
	require.NoError(t, second.Wait(ctx))

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.Equal(t, broken, first.Wait(cancelled), "it is done, so the context doesn't matter")
	q.Record(first)
	require.NoError(t, first.Wait(ctx), "recorded again, it is of the work since")
}

func TestCloseReturnsAnErrorThatNobodyHas(t *testing.T) {
	d := openDevice(t, "cpu")
	q, err := d.NewQueue()
	require.NoError(t, err)
	broken := errors.New("broken")
	q.(*Queue).Fail(broken)
	require.Equal(t, broken, q.Close())
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
}

// foreign is an event of another kind of device: done when it is closed.
type foreign struct {
	done chan struct{}
	err  error
}

func (f *foreign) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAfterWaitsAndTakesTheError(t *testing.T) {
	q, other := newQueue(t, "cpu"), newQueue(t, "cpu")
	q.After(device.Done)
	require.False(t, q.Failed())

	e := newEvent(t, other)
	broken := errors.New("broken")
	other.Fail(broken)
	other.Record(e)
	q.After(e)
	require.Equal(t, broken, q.Take())

	f := &foreign{done: make(chan struct{}), err: broken}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		q.After(f)
	}()
	select {
	case <-returned:
		t.Error("After returned before the event was done")
	default:
	}
	close(f.done)
	<-returned
	require.Equal(t, broken, q.Take())
}

func TestRecordTakesItsOwnEventsOnly(t *testing.T) {
	q, other := newQueue(t, "cpu"), newQueue(t, "cpu")
	for _, e := range []device.Event{newEvent(t, other), device.Done} {
		q.Record(e)
		require.ErrorContains(t, q.Take(), "an event of another queue")
	}
}

func TestQueuesOfADeviceTakeTurns(t *testing.T) {
	d := openDevice(t, "cpu")
	inside := 0 // the race detector watches this
	var visitors sync.WaitGroup
	for range 4 {
		visitors.Go(func() {
			q, err := d.NewQueue()
			if err != nil {
				t.Error(err)
				return
			}
			for range 500 {
				q.Begin()
				inside++
				if inside != 1 {
					t.Error("two queues between Begin and End")
				}
				inside--
				q.End()
			}
		})
	}
	visitors.Wait()
	require.NoError(t, d.Close())
}

func TestTheSteadyStateAllocatesNothing(t *testing.T) {
	for _, name := range []string{"cpu", nameOf(processCores()[:1])} {
		q := newQueue(t, name)
		b := newBuffer(t, q, 64)
		e := newEvent(t, q)
		j := &countJob{}
		data := make([]byte, 64)
		ctx := context.Background()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			q.Begin()
			q.After(e)
			q.Upload(b, 0, data)
			q.Parallel(8, j)
			q.Parallel(1, j)
			q.Download(data, b, 0)
			q.Record(e)
			q.End()
			_ = e.Wait(ctx)
		}), name)
		require.NoError(t, e.Wait(ctx))
	}
}
