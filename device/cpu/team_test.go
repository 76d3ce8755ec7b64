package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

// countJob counts how often each part is done and watches that no worker is in
// two parts at once.
type countJob struct {
	done   [256]atomic.Int32
	inside [16]atomic.Int32
	twice  atomic.Bool
	part   func(part, worker int) // done in each, if set
}

func (j *countJob) Do(part, worker int) {
	if j.inside[worker].Add(1) != 1 {
		j.twice.Store(true)
	}
	defer j.inside[worker].Add(-1)
	j.done[part].Add(1)
	if j.part != nil {
		j.part(part, worker)
	}
}

func (j *countJob) requireOnce(t testing.TB, parts int) {
	t.Helper()
	for i := range j.done {
		want := int32(0)
		if i < parts {
			want = 1
		}
		if got := j.done[i].Swap(0); got != want {
			t.Fatalf("part %d of %d was done %d times", i, parts, got)
		}
	}
	if j.twice.Load() {
		t.Fatal("a worker was in two parts at once")
	}
}

// crowd is a device with more workers than this machine may have cores, pinned
// where pinning is possible.
func crowd(workers int) *Device {
	all := processCores()
	cores := make([]int, workers)
	for i := range cores {
		cores[i] = all[i%len(all)]
	}
	return &Device{
		info:   device.Info{Name: "cpu:crowd", Kind: device.CPU, Cores: cores},
		team:   newTeam("cpu:crowd", cores, canPin),
		pinned: canPin,
		core:   maskOf(cores[0]),
	}
}

func withProcs(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestEveryPartIsDoneOnce(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			withProcs(t, procs)
			for _, workers := range []int{1, 2, 5} {
				d := crowd(workers)
				q := &Queue{device: d}
				require.Equal(t, workers, q.Workers())
				j := &countJob{}
				for i := range 2000 {
					parts := i % 17
					q.Parallel(parts, j)
					j.requireOnce(t, parts)
				}
				q.Parallel(-1, j)
				j.requireOnce(t, 0)
				require.NoError(t, q.Err())
				require.NoError(t, d.Close())
			}
		})
	}
}

// TestNothingStarves has several queues share a device, in and out of visits,
// with parts that panic, while other devices come and go.
func TestNothingStarves(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			withProcs(t, procs)
			d := crowd(4)
			var users sync.WaitGroup
			for user := range 4 {
				users.Go(func() {
					q := &Queue{device: d}
					j := &countJob{}
					bad := &countJob{part: func(part, _ int) {
						if part == 3 {
							panic(user)
						}
					}}
					for i := range 1000 {
						visit := user%2 == 0
						if visit {
							q.Begin()
						}
						if i%50 == 49 {
							q.Parallel(8, bad)
							var p *PanicError
							if err := q.Take(); !errors.As(err, &p) || p.Value != user {
								t.Errorf("user %d got %v", user, err)
							}
						} else {
							q.Parallel(8, j)
							j.requireOnce(t, 8)
						}
						if visit {
							q.End()
						}
						if err := q.Take(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			users.Go(func() {
				for range 50 {
					other := crowd(3)
					(&Queue{device: other}).Parallel(5, &countJob{})
					if err := other.Close(); err != nil {
						t.Error(err)
					}
				}
			})
			users.Wait()
			require.NoError(t, d.Close())
		})
	}
}

func TestHelpersThatSleepAreWoken(t *testing.T) {
	withProcs(t, 4)
	const workers = 4
	d := crowd(workers)
	q := &Queue{device: d}
	var there atomic.Int32
	together := &countJob{part: func(int, int) {
		for there.Add(1); there.Load() < workers; {
			runtime.Gosched()
		}
	}}
	for range 20 {
		there.Store(0)
		q.Parallel(workers, together) // returns only if every worker comes
		together.requireOnce(t, workers)
		for i := range d.team.helpers {
			for !d.team.helpers[i].asleep.Load() {
				runtime.Gosched()
			}
		}
	}
	require.NoError(t, d.Close())
}

func TestABusyTeamIsNotWaitedFor(t *testing.T) {
	d := crowd(2)
	first, second := &Queue{device: d}, &Queue{device: d}
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var running sync.WaitGroup
	running.Go(func() {
		first.Parallel(2, &countJob{part: func(int, int) {
			once.Do(func() { close(started) })
			<-release
		}})
	})
	<-started
	j := &countJob{part: func(_, worker int) {
		if worker != 0 {
			t.Error("alone, the caller is worker 0")
		}
	}}
	second.Parallel(4, j)
	j.requireOnce(t, 4)
	close(release)
	running.Wait()
	require.NoError(t, first.Err())
	require.NoError(t, second.Err())
	require.NoError(t, d.Close())

	second.Parallel(4, j)
	j.requireOnce(t, 4) // on a closed device too
}

func TestAPanicIsTheQueuesError(t *testing.T) {
	cause := errors.New("the cause")
	for _, workers := range []int{1, 3} {
		d := crowd(workers)
		q := &Queue{device: d}
		j := &countJob{part: func(part, _ int) {
			if part == 2 {
				panic(cause)
			}
		}}
		q.Parallel(256, j)
		var p *PanicError
		require.ErrorAs(t, q.Err(), &p)
		require.ErrorIs(t, q.Err(), cause)
		require.Equal(t, "cpu:crowd", p.Device)
		require.Regexp(t, `^cpu:crowd: panic: the cause \(.*team_test\.go:\d+\)$`, p.Error())
		require.Regexp(t, `^\S+TestAPanicIsTheQueuesError`, p.Stack, "the frame at fault comes first")
		require.LessOrEqual(t, strings.Count(p.Stack, "\n"), 2*maxFrames)
		if workers == 1 {
			require.Zero(t, j.done[3].Load(), "the parts after it are skipped")
		}

		require.True(t, q.Failed())
		_ = q.Take()
		ok := &countJob{}
		q.Parallel(8, ok)
		ok.requireOnce(t, 8)
		require.NoError(t, d.Close())
	}
}

func TestTheRuntimesPanicsNameTheirPlace(t *testing.T) {
	q := &Queue{device: crowd(1)}
	var none []int
	q.Parallel(2, &countJob{part: func(part, _ int) { none[part]++ }})
	require.Regexp(t, `^cpu:crowd: panic: runtime error: index out of range \[0\] with length 0 \(.*team_test\.go:\d+\)$`, q.Err().Error())
	var bounds runtime.Error
	require.ErrorAs(t, q.Err(), &bounds)
	_ = q.Take()
	var nowhere *countJob
	q.Parallel(2, &countJob{part: func(int, int) { nowhere.twice.Store(true) }})
	require.Regexp(t, `nil pointer dereference \(.*\.go:\d+\)$`, q.Err().Error())
	require.NoError(t, q.device.Close())
}

func TestAHelperWhoseGoroutineEndsIsAnError(t *testing.T) {
	withProcs(t, 4)
	d := crowd(2)
	q := &Queue{device: d}
	var there atomic.Int32
	q.Parallel(2, &countJob{part: func(_, worker int) {
		for there.Add(1); there.Load() < 2; {
			runtime.Gosched()
		}
		if worker == 1 {
			runtime.Goexit()
		}
	}})
	require.ErrorContains(t, q.Take(), "the goroutine of an operation was ended")
	j := &countJob{}
	q.Parallel(8, j)
	j.requireOnce(t, 8)
	require.NoError(t, d.Close())
}

func TestACallerWhoseGoroutineEndsLeavesTheTeamFree(t *testing.T) {
	d := crowd(2)
	var ending sync.WaitGroup
	ending.Go(func() {
		(&Queue{device: d}).Parallel(64, &countJob{part: func(_, worker int) {
			if worker == 0 {
				runtime.Goexit()
			}
		}})
	})
	ending.Wait()
	require.True(t, d.team.mu.TryLock())
	d.team.mu.Unlock()
	require.NoError(t, d.Close())
}

func TestWorkersAreNoMoreThanProcessors(t *testing.T) {
	withProcs(t, 1)
	q := newQueue(t, "cpu")
	require.Equal(t, 1, q.Workers())
}
