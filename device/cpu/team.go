package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// team is the helpers of a device: all workers but the first, which is the caller.
//
// The caller posts a job by setting the open bit of the state word. While the bit is set, a
// helper joins the job by incrementing the count in the same word. When no parts are left,
// the caller clears the bit and waits for the helpers that joined. It never waits for a
// helper that was asleep or had no processor to run on: such a helper finds the bit cleared
// and can't join any more.
type team struct {
	device  string // the name, for errors
	cores   []int  // of the workers; worker 0 is the caller
	pinned  bool   // whether the helpers are pinned to their cores
	spins   int    // how often a helper polls before it sleeps
	helpers []helper
	running sync.WaitGroup

	mu      sync.Mutex // held during a job, so that there is one at a time, and by close
	started bool       // whether the helpers' goroutines run
	closed  bool

	job     Job // written before state is set to open, read after joining
	parts   int
	failure atomic.Pointer[PanicError] // the job's first panic

	_     [cacheLine]byte
	next  atomic.Int64 // the next part to claim
	_     [cacheLine]byte
	state atomic.Uint64
	_     [cacheLine]byte
}

// The layout of the state word.
const (
	joined   = 1<<16 - 1 // mask of the count of helpers that have joined and not yet left
	isOpen   = 1 << 16   // the bit that lets helpers join
	quit     = 1 << 17   // the bit that ends the helpers
	oneEpoch = 1 << 18   // the increment of the job's number, which is in the upper bits
)

// epoch returns the bits of a state word that hold the job's number.
func epoch(state uint64) uint64 { return state &^ (oneEpoch - 1) }

// cacheLine is the distance in bytes that avoids false sharing. It is two lines of 64 bytes,
// because processors fetch them in pairs.
const cacheLine = 128

// spins is how often an idle helper polls for a job before it sleeps. That takes some tens
// of microseconds, longer than the gap between two ops of a layer. If GOMAXPROCS is 1, a
// helper doesn't poll, because that would keep the caller from running.
const spins = 1 << 15

// helper is one goroutine of a team.
type helper struct {
	asleep atomic.Bool   // the goroutine that sets it to false sends to wake, if it is another
	wake   chan struct{} // has a buffer of one, so that the send never blocks
	_      [cacheLine]byte
}

// newTeam returns a team with one worker for each core. The helpers' goroutines start with
// the first job.
func newTeam(device string, cores []int, pinned bool) *team {
	t := &team{device: device, cores: cores, pinned: pinned, helpers: make([]helper, len(cores)-1)}
	if runtime.GOMAXPROCS(0) > 1 {
		t.spins = spins
	}
	for i := range t.helpers {
		t.helpers[i].wake = make(chan struct{}, 1)
	}
	return t
}

func (t *team) size() int { return len(t.helpers) + 1 }

// do does all parts of a job: with the helpers if no other job runs, and otherwise on the
// caller alone. It returns the job's first panic.
func (t *team) do(parts int, j Job) *PanicError {
	if parts == 1 || len(t.helpers) == 0 || !t.mu.TryLock() {
		return alone(t.device, parts, j)
	}
	if t.closed {
		t.mu.Unlock()
		return alone(t.device, parts, j)
	}
	return t.together(parts, j)
}

// alone does all parts on the calling goroutine.
func alone(device string, parts int, j Job) (failure *PanicError) {
	returned := false
	defer func() {
		if !returned {
			failure = newPanicError(device, recover())
		}
	}()
	for part := range parts {
		j.Do(part, 0)
	}
	returned = true
	return nil
}

// together posts a job and takes part in it. t.mu must be held; together unlocks it.
func (t *team) together(parts int, j Job) *PanicError {
	t.start()
	t.job, t.parts = j, parts
	t.failure.Store(nil)
	t.next.Store(0)
	t.state.Store(epoch(t.state.Load()) + oneEpoch | isOpen)
	for i := range t.helpers[:min(parts-1, len(t.helpers))] {
		t.helpers[i].rouse()
	}
	defer t.finish() // deferred, as a part may end the caller's goroutine
	t.claim(0)
	t.shut()
	return t.failure.Load()
}

// shut clears the open bit and waits until the helpers that joined have left the job.
func (t *team) shut() {
	t.state.And(^uint64(isOpen))
	for i := 0; t.state.Load()&joined != 0; i++ {
		if i > t.spins {
			runtime.Gosched()
		}
	}
}

// finish ends a job and unlocks t.mu.
func (t *team) finish() {
	t.shut()
	t.job = nil
	t.mu.Unlock()
}

// claim claims and does parts until none are left or one panics.
func (t *team) claim(worker int) {
	returned := false
	defer func() {
		if !returned {
			t.next.Store(int64(t.parts))
			t.failure.CompareAndSwap(nil, newPanicError(t.device, recover()))
		}
	}()
	for {
		part := int(t.next.Add(1) - 1)
		if part >= t.parts {
			break
		}
		t.job.Do(part, worker)
	}
	returned = true
}

// start starts the helpers' goroutines, if they don't run yet. t.mu must be held.
func (t *team) start() {
	if t.started {
		return
	}
	t.started = true
	for i := range t.helpers {
		t.running.Go(func() { t.help(i) })
	}
}

// close waits for a job in progress, ends the helpers, and waits for them.
func (t *team) close() {
	t.mu.Lock()
	t.closed = true
	t.state.Store(epoch(t.state.Load()) + oneEpoch | quit)
	for i := range t.helpers {
		t.helpers[i].rouse()
	}
	t.mu.Unlock()
	t.running.Wait()
}

// help is the body of a helper's goroutine.
func (t *team) help(i int) {
	worker := i + 1
	if t.pinned && pin(maskOf(t.cores[worker])) {
		defer unpin()
	}
	for last := uint64(0); ; {
		state := t.await(&t.helpers[i], last)
		if state&quit != 0 {
			return
		}
		if t.state.CompareAndSwap(state, state+1) {
			last = epoch(state)
			t.assist(worker)
		}
	}
}

// assist takes part in the job that the helper has joined.
func (t *team) assist(worker int) {
	defer t.state.Add(^uint64(0)) // adds -1: the helper leaves the job
	t.claim(worker)
}

// await waits until a job other than the last can be joined, or the helper has to end, and
// returns that state.
func (t *team) await(h *helper, last uint64) uint64 {
	for {
		for range t.spins + 1 {
			if s := t.state.Load(); wanted(s, last) {
				return s
			}
		}
		// A caller that posts a job after this store sees that the helper is asleep. A job
		// posted before the store is seen by the load that follows.
		h.asleep.Store(true)
		if s := t.state.Load(); wanted(s, last) && h.asleep.CompareAndSwap(true, false) {
			return s
		}
		<-h.wake
	}
}

// wanted reports whether a helper whose last job is given should return from await.
func wanted(state, last uint64) bool {
	return state&quit != 0 || state&isOpen != 0 && epoch(state) != last
}

// rouse wakes the helper if it is asleep. It doesn't block.
func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}
