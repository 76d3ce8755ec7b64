package cuda

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/internal/emulator"
)

func TestBytesGoUpAndDown(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	b := newBuffer(t, d, 8)
	got := make([]byte, 8)
	within(q, func() {
		q.Upload(b, 2, []byte{1, 2, 3})
		q.Upload(b, 8, nil)
		q.Download(got, b, 0)
	})
	require.NoError(t, outcomeOf(t, q))
	require.Equal(t, []byte{0, 0, 1, 2, 3, 0, 0, 0}, got)
}

func TestCopiesStayInsideTheBuffer(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	b := newBuffer(t, d, 8)
	for _, offset := range []int64{-1, 7, 8, 9, math.MaxInt64, math.MinInt64} {
		within(q, func() { q.Upload(b, offset, []byte{9, 9}) })
		require.ErrorContains(t, outcomeOf(t, q), "cuda:0: an upload of 2 bytes at offset")
		within(q, func() { q.Download(make([]byte, 2), b, offset) })
		require.ErrorContains(t, outcomeOf(t, q), "cuda:0: a download of 2 bytes at offset")
	}
	require.Equal(t, make([]byte, 8), download(t, q, b, 8))

	gone, err := d.Alloc(8)
	require.NoError(t, err)
	require.NoError(t, gone.Free())
	within(q, func() { q.Upload(gone, 0, []byte{1}) })
	require.ErrorContains(t, outcomeOf(t, q), "the buffer was freed")
}

func TestABufferOfAnotherGPUIsRefused(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	a, b := openGPU(t, "cuda:0"), openGPU(t, "cuda:1")
	q := newQueue(t, a)
	other := newBuffer(t, b, 8)
	within(q, func() { q.Upload(other, 0, []byte{1}) })
	require.EqualError(t, outcomeOf(t, q), "cuda:0: an upload of 1 bytes: the buffer isn't this GPU's")
	add := newAdder(t, b, 2)
	within(q, func() { add.launch(q, other, other) })
	require.EqualError(t, outcomeOf(t, q), "cuda:0: the function to launch is not one of this GPU")
}

func TestAnErrorGoesToTheNextEvent(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	b := newBuffer(t, d, 1)
	first, second := newEvent(t, q), newEvent(t, q)
	require.NoError(t, first.Wait(background), "a new event is done")

	broken := errors.New("broken")
	q.Fail(nil)
	require.False(t, q.Failed())
	q.Fail(broken)
	q.Fail(errors.New("later"))
	require.True(t, q.Failed())
	require.Equal(t, broken, q.Err())
	within(q, func() {
		q.Upload(b, 0, []byte{1})
		q.Record(first)
	})
	require.False(t, q.Failed(), "after that the queue is as new")
	require.NoError(t, q.Err())
	require.Equal(t, broken, first.Wait(background))
	require.Equal(t, broken, first.Wait(background), "however often")
	require.Equal(t, []byte{0}, download(t, q, b, 1), "what followed was skipped")
	within(q, func() {
		q.Upload(b, 0, []byte{1})
		q.Record(second)
	})
	require.NoError(t, second.Wait(background))
	require.Equal(t, []byte{1}, download(t, q, b, 1))

	cancelled, cancel := context.WithCancel(background)
	cancel()
	require.Equal(t, broken, first.Wait(cancelled), "it is done, so the context doesn't matter")
	within(q, func() { q.Record(first) })
	require.NoError(t, first.Wait(background), "recorded again, it is of the work since")
}

func TestOperationsNeedBegin(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	b := newBuffer(t, d, 1)
	e := newEvent(t, q)
	add := newAdder(t, d, 0)
	for what, do := range map[string]func(){
		"an upload":  func() { q.Upload(b, 0, []byte{1}) },
		"a download": func() { q.Download(make([]byte, 1), b, 0) },
		"a launch":   func() { add.launch(q, b, b) },
		"After":      func() { q.After(e) },
		"Record":     func() { q.Record(e) },
	} {
		do()
		require.EqualError(t, outcomeOf(t, q), "cuda:0: "+what+" outside Begin and End")
	}
}

func TestRecordTakesItsOwnEventsOnly(t *testing.T) {
	d := oneGPU(t, "")
	q, other := newQueue(t, d), newQueue(t, d)
	for _, e := range []device.Event{newEvent(t, other), device.Done} {
		within(q, func() { q.Record(e) })
		require.ErrorContains(t, outcomeOf(t, q), "an event of another queue")
	}
}

func TestCloseReturnsAnErrorThatNobodyHas(t *testing.T) {
	d := oneGPU(t, "")
	q, err := d.NewQueue()
	require.NoError(t, err)
	e := newEvent(t, q.(*Queue))
	broken := errors.New("broken")
	q.(*Queue).Fail(broken)
	require.Equal(t, broken, q.Close())
	require.NoError(t, q.Close())
	_, err = q.NewEvent()
	require.EqualError(t, err, "cuda:0: making an event of a closed queue")
	within(q, func() { q.Record(e) })
	require.EqualError(t, q.Err(), "cuda:0: Record on a closed queue")
	require.True(t, e.Done(), "nobody waits for ever")
}

func TestCloseWaitsForWhatWasEnqueued(t *testing.T) {
	d := oneGPU(t, "slow:0@50ms")
	q, err := d.NewQueue()
	require.NoError(t, err)
	x, err := d.Alloc(4)
	require.NoError(t, err)
	add := newAdder(t, d, 1)
	e := newEvent(t, q.(*Queue))
	within(q, func() {
		add.launch(q.(*Queue), x, x)
		q.Record(e)
		add.launch(q.(*Queue), x, x)
	})
	require.NoError(t, q.Close())
	require.NoError(t, x.Free(), "nothing uses it any more")
	require.True(t, e.Done())
	require.NoError(t, e.Wait(background), "an event outlives its queue")

	// Another queue may still come after it.
	other := newQueue(t, d)
	within(other, func() { other.After(e) })
	require.NoError(t, outcomeOf(t, other))
}

func TestKernelsRun(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	dst, x := newBuffer(t, d, 12), newBuffer(t, d, 12)
	upload(t, q, dst, floatBytes(1, 2, 3))
	upload(t, q, x, floatBytes(10, 20, 30))
	add := newAdder(t, d, 3)
	require.Equal(t, "leat_add", add.f.Name())
	within(q, func() {
		add.launch(q, dst, x)
		q.Launch(add.f, device.Grid{X: 0, Y: 1, Z: 1, Threads: 256}, add.params) // nothing
	})
	require.Equal(t, floatBytes(11, 22, 33), download(t, q, dst, 12))
}

func TestLaunchesAreChecked(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	add := newAdder(t, d, 3)
	grid := device.Grid{X: 1, Y: 1, Z: 1, Threads: 256}
	within(q, func() { q.Launch(add.f, grid, make([]byte, driver.MostParams+1)) })
	require.ErrorContains(t, outcomeOf(t, q), "launch of leat_add with 4097 bytes of parameters: the maximum is 4096")
	grid.Threads = 257
	within(q, func() { q.Launch(add.f, grid, add.params) })
	require.ErrorContains(t, outcomeOf(t, q), "launch of leat_add in blocks of 257 threads: the kernel's maximum is 256")
	within(q, func() { q.Launch(nil, grid, add.params) })
	require.ErrorContains(t, outcomeOf(t, q), "the function to launch is not one of this GPU")
}

func TestAfterMakesTheGPUWaitAndNotTheHost(t *testing.T) {
	d := oneGPU(t, "slow:0@200ms")
	a, b := newQueue(t, d), newQueue(t, d)
	x := newBuffer(t, d, 4)
	upload(t, a, x, floatBytes(1))
	add := newAdder(t, d, 1)
	first, second := newEvent(t, a), newEvent(t, b)
	within(a, func() {
		add.launch(a, x, x)
		a.Record(first)
	})
	within(b, func() {
		b.After(first)
		add.launch(b, x, x)
		b.Record(second)
	})
	require.False(t, first.Done(), "all is enqueued while the first kernel runs")
	require.NoError(t, second.Wait(background))
	require.True(t, first.Done(), "what depends on it ends after it")
	require.Equal(t, floatBytes(4), download(t, b, x, 4))
	began, ended := second.Span()
	_, before := first.Span()
	require.Greater(t, began.Sub(before), -100*time.Millisecond, "the second's work began when the first's had ended")
	require.Greater(t, ended.Sub(began), 100*time.Millisecond)
}

func TestErrorsFollowTheWork(t *testing.T) {
	d := oneGPU(t, "slow:0@100ms")
	a, b := newQueue(t, d), newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	first, second := newEvent(t, a), newEvent(t, b)
	broken := errors.New("broken")
	within(a, func() {
		add.launch(a, x, x)
		a.Fail(broken)
		a.Record(first)
	})
	within(b, func() {
		b.After(first) // not done, so the error isn't known
		b.Record(second)
	})
	require.Equal(t, broken, second.Wait(background))
	require.Equal(t, broken, first.Wait(background))

	within(b, func() {
		b.After(first) // known
		require.Equal(t, broken, b.Err())
		b.Record(second)
	})
	require.Equal(t, broken, second.Wait(background))
	within(b, func() { b.Record(second) })
	require.NoError(t, second.Wait(background))
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

func TestAfterWaitsForAnotherKindOfEvent(t *testing.T) {
	q := newQueue(t, oneGPU(t, ""))
	within(q, func() { q.After(device.Done) })
	require.False(t, q.Failed())
	f := &foreign{done: make(chan struct{}), err: errors.New("broken")}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		within(q, func() { q.After(f) })
	}()
	select {
	case <-returned:
		t.Error("After returned before the event was done")
	default:
	}
	close(f.done)
	<-returned
	require.Equal(t, f.err, outcomeOf(t, q))
}

func TestReportsOfKernelsBecomeErrors(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	var seen []uint32
	broken := errors.New("broken")
	explained := newEvent(t, q)
	gather := newGather(t, d)
	require.NotZero(t, q.Status())

	within(q, func() { gather.launch(q) })
	require.ErrorContains(t, outcomeOf(t, q), "cuda:0: a kernel reported [6 ", "without words of its own")

	explain := func(s [device.StatusWords]uint32) error { seen = s[:2]; return broken }
	q.Explain(explain)
	within(q, func() {
		gather.launch(q)
		q.Fail(errors.New("later"))
		q.Record(explained)
	})
	require.Equal(t, broken, explained.Wait(background), "the report was first")
	require.EqualValues(t, 6, seen[0], "the header holds other numbers")
	require.NoError(t, outcomeOf(t, q), "it was reported once")
	within(q, func() { gather.launch(q) })
	require.Equal(t, broken, outcomeOf(t, q))

	q2, err := d.NewQueue()
	require.NoError(t, err)
	q2.(*Queue).Explain(explain)
	within(q2, func() { gather.launch(q2.(*Queue)) })
	require.Equal(t, broken, q2.Close(), "nobody else was told")
}

func TestTheSteadyStateAllocatesNothing(t *testing.T) {
	if race {
		t.Skip("under the race detector a sync.Pool that purego keeps forgets things")
	}
	d := oneGPU(t, "")
	q, other := newQueue(t, d), newQueue(t, d)
	x := newBuffer(t, d, 64)
	add := newAdder(t, d, 4)
	e, f := newEvent(t, q), newEvent(t, other)
	pinned, err := d.AllocHost(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, pinned.Free()) }()
	mem, data := pinned.Bytes(), make([]byte, 64)
	batch := func() {
		q.Begin()
		q.After(f)
		q.Upload(x, 0, data)
		add.launch(q, x, x)
		q.Download(mem, x, 0)
		q.Record(e)
		q.End()
		other.Begin()
		other.After(e)
		other.Record(f)
		other.End()
		_ = e.Wait(background)
		_ = f.Wait(background)
		e.Span()
	}
	batch()
	require.Zero(t, testing.AllocsPerRun(100, batch))
	require.NoError(t, f.Wait(background))
}
