package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// team is a device's workers, but for the first, which is whoever calls.
//
// A job is posted in one word of state. While its open bit is set, a helper may
// join by counting itself in; the poster clears the bit when the parts have run
// out, and then waits for those that joined, never for one that was asleep or
// had no processor to run on. A helper that comes late finds the door closed.
type team struct {
	device  string
	cores   []int
	pinned  bool // helpers to their cores
	spins   int
	helpers []helper
	running sync.WaitGroup

	mu      sync.Mutex // one job at a time; also start and close
	started bool
	closed  bool

	job     Job // written before state, read after joining
	parts   int
	failure atomic.Pointer[PanicError]

	_     [cacheLine]byte
	next  atomic.Int64 // the next part to claim
	_     [cacheLine]byte
	state atomic.Uint64
	_     [cacheLine]byte
}

// The state word: the count of helpers that joined and haven't left, the open
// bit, the quit bit, and the number of the job.
const (
	joined   = 1<<16 - 1
	isOpen   = 1 << 16
	quit     = 1 << 17
	oneEpoch = 1 << 18
)

// epoch returns the job's number in its place in the word.
func epoch(state uint64) uint64 { return state &^ (oneEpoch - 1) }

const cacheLine = 128 // two of 64: processors fetch them in pairs

// A helper that has nothing to do looks for work for some tens of
// microseconds, longer than the gap between two ops of a layer, and then
// sleeps. With one processor to run on, looking would keep the poster off it.
const spins = 1 << 15

// helper is one worker.
type helper struct {
	asleep atomic.Bool   // whoever clears it sends one wake
	wake   chan struct{} // has room for it
	_      [cacheLine]byte
}

// newTeam makes a team with a worker for each core. It has no goroutines yet.
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

// do does all parts of a job, with the team if it is free.
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

// alone does all parts on the caller.
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

// together posts a job and takes part in it. The team is locked; it unlocks it.
func (t *team) together(parts int, j Job) *PanicError {
	t.start()
	t.job, t.parts = j, parts
	t.failure.Store(nil)
	t.next.Store(0)
	t.state.Store(epoch(t.state.Load()) + oneEpoch | isOpen)
	for i := range t.helpers[:min(parts-1, len(t.helpers))] {
		t.helpers[i].rouse()
	}
	defer t.finish() // also where a part ends the caller's goroutine
	t.claim(0)
	t.shut()
	return t.failure.Load()
}

// shut closes the door behind those that joined and waits until they have left.
func (t *team) shut() {
	t.state.And(^uint64(isOpen))
	for i := 0; t.state.Load()&joined != 0; i++ {
		if i > t.spins {
			runtime.Gosched()
		}
	}
}

func (t *team) finish() {
	t.shut()
	t.job = nil
	t.mu.Unlock()
}

// claim does parts until none are left or one panics.
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

// start starts the helpers at the first job.
func (t *team) start() {
	if t.started {
		return
	}
	t.started = true
	for i := range t.helpers {
		t.running.Go(func() { t.help(i) })
	}
}

// close ends the helpers, after a job that is under way, and waits for them.
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

// help is the life of a helper, on a thread of its own where it is pinned.
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
	defer t.state.Add(^uint64(0)) // minus one: it leaves
	t.claim(worker)
}

// await returns a state in which a job other than the last is open, or quit.
func (t *team) await(h *helper, last uint64) uint64 {
	for {
		for range t.spins + 1 {
			if s := t.state.Load(); wanted(s, last) {
				return s
			}
		}
		// A post after the store sees the sleeper; one before it is seen here.
		h.asleep.Store(true)
		if s := t.state.Load(); wanted(s, last) && h.asleep.CompareAndSwap(true, false) {
			return s
		}
		<-h.wake
	}
}

func wanted(state, last uint64) bool {
	return state&quit != 0 || state&isOpen != 0 && epoch(state) != last
}

// rouse wakes the helper if it sleeps. It doesn't block.
func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}
