package driver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backendOf has the GPUs of a fake driver as a kind that no other package of this
// module has a driver for.
func backendOf(f *fake) Backend {
	return Backend{Of: device.ROCm, Load: func() (Driver, error) { return f, nil }}
}

func openGPU(t *testing.T, f *fake, name string) *Device {
	t.Helper()
	d, err := backendOf(f).Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.(*Device)
}

func newQueue(t *testing.T, d *Device) *Queue {
	t.Helper()
	q, err := d.newQueue()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

func newEvent(t *testing.T, q *Queue) *Event {
	t.Helper()
	e, err := q.NewEvent()
	require.NoError(t, err)
	return e.(*Event)
}

func within(q device.Queue, do func()) {
	q.Begin()
	defer q.End()
	do()
}

// launcher launches a kernel of a program.
func launcher(d *Device, name string) (func(q *Queue, address uint64), error) {
	p, err := d.Load([]byte("a program"))
	if err != nil {
		return nil, err
	}
	f, err := p.Function(name)
	if err != nil {
		return nil, err
	}
	return func(q *Queue, address uint64) {
		q.Launch(f, device.Grid{X: 1, Y: 1, Z: 1, Threads: 1}, binary.LittleEndian.AppendUint64(nil, address))
	}, nil
}

func TestTheGPUsOfADriver(t *testing.T) {
	f := newFake(3)
	f.unfit[1] = errors.New("rocm:1: too old")
	b := backendOf(f)
	require.Equal(t, device.ROCm, b.Kind())
	infos, err := b.Discover()
	require.EqualError(t, err, "rocm:1: too old")
	require.Len(t, infos, 2)
	require.Equal(t, device.Info{
		Name: "rocm:2", Kind: device.ROCm, Description: "a fake of 12", Memory: 1 << 30, Free: 1 << 29, Peers: []string{"rocm:0", "rocm:1"},
	}, infos[1])
	for _, name := range []string{"rocm", "rocm:", "rocm:x", "rocm:01", "rocm:-1", "cuda:0", ""} {
		_, err := b.Resolve(name, 0)
		require.ErrorAs(t, err, new(*device.ListError), name)
		require.ErrorContains(t, err, "rocm:0")
	}
	_, err = b.Resolve("rocm:3", 0)
	require.EqualError(t, err, "rocm:3 does not exist: there are rocm:0 to rocm:2")
	require.Equal(t, "is only rocm:0", b.areThere(1))
	require.Equal(t, "are rocm:0 and rocm:1", b.areThere(2))
	f.gpus = 0
	_, err = b.Open("rocm:0")
	require.EqualError(t, err, "the driver is there, but it has no GPU")
	require.Empty(t, f.left())
}

// unheard are calls of which one may fail without an error: there is another way, or
// nobody waits for its work. Those that give something back may where the GPU is lost
// (true), since its memory goes with the context.
var unheard = map[string]bool{
	"StreamWait":       false, // the host waits
	"EventRecord":      false, // the same, of all of the stream
	"EventSynchronize": false, // of a mark that says when work began, or at the end
	"Handle":           false, // of a neighbour: then it is no peer
	"CanAccessPeer":    false,
	"MemFree":          true, "HostFree": true, "StreamDestroy": true, "EventDestroy": true, "ModuleUnload": true,
}

// Whatever call fails, however often it was made before, the error names it and the
// GPU, and all is given back.
func TestEveryCallMayFail(t *testing.T) {
	most := 8 // calls of a name after which one fails
	if testing.Short() {
		most = 2
	}
	for _, peers := range []bool{true, false} {
		good := newFake(2)
		good.peers = peers
		require.NoError(t, everything(good))
		require.Greater(t, len(good.counts), 23)
		require.Equal(t, peers, good.counts["CopyPeer"] > 0)
		for name, called := range good.counts {
			for n := 1; n <= min(called, most); n++ {
				for _, lost := range []bool{false, true} {
					f := newFake(2)
					f.peers = peers
					f.fails[name] = failing{n, Error{Name: "TOLD", Lost: lost}}
					err := everything(f)
					require.Empty(t, f.left(), "%s, call %d, lost %t", name, n, lost)
					if err == nil {
						require.Contains(t, unheard, name)
						require.True(t, lost || !unheard[name])
						continue
					}
					var e *Error
					require.ErrorAs(t, err, &e, "%s, call %d", name, n)
					require.Equal(t, name, e.Call)
					require.Regexp(t, "^rocm:[01]$", e.Device)
					require.Equal(t, lost, errors.Is(err, device.ErrLost))
				}
			}
		}
	}
}

// letter is what goes from GPU to GPU: three pieces, where it goes in pieces.
var letter = bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13}, 2*PieceBytes/7+1)

// everything uses two GPUs for all that they are for, and gives back all of it. It
// returns the first error.
func everything(f *fake) (first error) {
	keep := func(err error) bool {
		if first == nil {
			first = err
		}
		return err == nil
	}
	n := int64(len(letter))
	var ds [2]*Device
	var qs [2]*Queue
	var bs [2]device.Buffer
	var es [2]device.Event
	for i := range ds {
		d, err := backendOf(f).Open(fmt.Sprintf("rocm:%d", i))
		if !keep(err) {
			return
		}
		ds[i] = d.(*Device)
		defer func() { keep(d.Close()) }()
		if bs[i], err = d.Alloc(n); !keep(err) {
			return
		}
		defer func() { keep(bs[i].Free()) }()
		if qs[i], err = ds[i].newQueue(); !keep(err) {
			return
		}
		defer func() { keep(qs[i].Close()) }()
		if es[i], err = qs[i].NewEvent(); !keep(err) {
			return
		}
	}
	launch, err := launcher(ds[0], increment)
	if !keep(err) {
		return
	}
	tr, err := device.NewTransfer(ds[0], qs[1])
	if !keep(err) {
		return
	}
	defer func() { keep(tr.Close()) }()
	got := make([]byte, n)
	for range 2 {
		within(qs[0], func() {
			qs[0].Upload(bs[0], 0, letter)
			launch(qs[0], bs[0].(*Buffer).Address())
			qs[0].Record(es[0])
		})
		_, err := tr.Move(context.Background(), bs[1], bs[0], n, es[0])
		keep(err)
		within(qs[1], func() {
			qs[1].Download(got, bs[1], 0)
			qs[1].Record(es[1])
		})
		keep(es[0].Wait(context.Background()))
		if keep(es[1].Wait(context.Background())) && err == nil && first == nil {
			if got[0] != letter[0]+1 || !bytes.Equal(got[1:], letter[1:]) {
				return errors.New("other bytes arrived")
			}
		}
	}
	return
}

func TestWhatKernelsReportIsTheErrorOfTheirEvent(t *testing.T) {
	d := openGPU(t, newFake(1), "rocm:0")
	q := newQueue(t, d)
	launch, err := launcher(d, report)
	require.NoError(t, err)
	_, err = launcher(d, "nothing")
	require.EqualError(t, err, `rocm:0: ModuleFunction: NOT_FOUND: "nothing"`)
	e := newEvent(t, q)
	within(q, func() { launch(q, q.Status()); q.Record(e) })
	require.EqualError(t, e.Wait(t.Context()), "rocm:0: a kernel reported [6 0 0 0 0 0 0 0]")
	within(q, func() { q.Record(e) })
	require.NoError(t, e.Wait(t.Context()), "it was reported once")
}

func TestGPUsThatOnlySayTheyReachEachOther(t *testing.T) {
	f := newFake(2)
	f.lossy = true
	a, b := openGPU(t, f, "rocm:0"), openGPU(t, f, "rocm:1")
	q := newQueue(t, b)
	for range 2 {
		tr, err := device.NewTransfer(a, q)
		require.NoError(t, err)
		require.True(t, Detours(tr))
		require.NoError(t, tr.Close())
	}
	require.Equal(t, map[*gpu]bool{a.gpu: false}, b.reached)
	require.Equal(t, 1, f.counts["EnablePeer"], "they are asked once")
}

func TestMemoryThatIsOutSaysHowMuch(t *testing.T) {
	f := newFake(1)
	d := openGPU(t, f, "rocm:0")
	f.fails["MemAlloc"] = failing{1, Error{Name: "OUT", OutOfMemory: true}}
	_, err := d.Alloc(3 << 20)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.EqualError(t, err, "rocm:0: MemAlloc: OUT: 3.0 MiB were asked for, Leat has allocated 0 B, 512.0 MiB of 1.0 GiB are free")
	f.fails["HostAlloc"] = failing{1, Error{Name: "OUT", OutOfMemory: true}}
	_, err = d.AllocHost(1 << 20)
	require.EqualError(t, err, "rocm:0: HostAlloc: OUT: 1.0 MiB were asked for, Leat has allocated 0 B")
}

func TestWhatFollowsALossNamesItsCause(t *testing.T) {
	first := &Error{Call: "Launch", Code: 719, Name: "FAILED", Message: "unspecified launch failure", Lost: true}
	g := &gpu{name: "rocm:0"}
	require.NoError(t, g.Lost())
	require.Equal(t, error(first), g.check(first))
	_ = g.check(&Error{Code: 999, Lost: true})
	require.EqualError(t, g.Lost(), "rocm:0: the GPU was lost earlier: rocm:0: Launch: FAILED (unspecified launch failure): close everything that uses it, or restart the program")
	require.ErrorIs(t, g.Lost(), device.ErrLost)
	var e *Error
	require.ErrorAs(t, g.Lost(), &e)
	require.Same(t, first, e)
}

// Waiting leaves nothing behind but tickets for as many as ever waited at once.
func TestWhoWaitsLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.slow = make(chan struct{})
		d := openGPU(t, f, "rocm:0")
		q := newQueue(t, d)
		x, err := d.Alloc(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.Free()) })
		launch, err := launcher(d, increment)
		require.NoError(t, err)
		e := newEvent(t, q)
		for range 3 {
			within(q, func() {
				launch(q, x.(*Buffer).Address())
				q.Fail(errBroken)
				q.Record(e)
			})
			ctx, cancel := context.WithCancel(t.Context())
			outcomes := make(chan error, 8)
			for i := range 8 {
				waits := context.Background()
				if i%2 == 1 {
					waits = ctx
				}
				go func() { outcomes <- e.Wait(waits) }()
			}
			synctest.Wait()
			require.False(t, e.Done())
			require.Len(t, e.waiting, 8)
			cancel()
			for range 4 {
				require.Equal(t, context.Canceled, <-outcomes)
			}
			require.Len(t, e.waiting, 4)
			f.slow <- struct{}{}
			for range 4 {
				require.Equal(t, errBroken, <-outcomes)
			}
			require.Empty(t, e.waiting)
			require.Len(t, e.idle, 8)
		}
	})
}

// An event recorded again is waited for first, so that no error is lost.
func TestARecordingWaitsForTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.slow = make(chan struct{})
		d := openGPU(t, f, "rocm:0")
		q, other := newQueue(t, d), newQueue(t, d)
		x, err := d.Alloc(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.Free()) })
		launch, err := launcher(d, increment)
		require.NoError(t, err)
		e, follower := newEvent(t, q), newEvent(t, other)
		within(q, func() {
			launch(q, x.(*Buffer).Address())
			q.Fail(errBroken)
			q.Record(e)
		})
		within(other, func() {
			other.After(e) // its first recording
			other.Record(follower)
		})
		again := make(chan struct{})
		go func() {
			defer close(again)
			within(q, func() { q.Record(e) })
		}()
		synctest.Wait()
		require.EqualValues(t, 1, e.recorded)
		require.EqualValues(t, 0, e.finished)
		f.slow <- struct{}{}
		<-again
		require.NoError(t, e.Wait(t.Context()))
		require.Equal(t, errBroken, follower.Wait(t.Context()), "the error of the recording that was followed")
	})
}

// The errors of the latest recordings are kept, and those of older ones are not taken
// for none.
func TestOnlySoManyFailuresAreKept(t *testing.T) {
	e := &Event{}
	for i := range 2 * mostFailures {
		e.recorded++
		e.finish(fmt.Errorf("broken in round %d", i), time.Time{}, time.Time{})
		e.recorded++
		e.finish(nil, time.Time{}, time.Time{})
	}
	require.Len(t, e.failures, mostFailures)
	last := uint64(4 * mostFailures)
	require.NoError(t, e.outcome(last))
	require.EqualError(t, e.outcome(last-1), fmt.Sprintf("broken in round %d", 2*mostFailures-1))
	require.Equal(t, errForgotten, e.outcome(1))
	require.Equal(t, errForgotten, e.outcome(2), "it was none, but nobody knows")
}
