package stage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
)

// Observer is told what stages do, of each batch in the order of its stages. Their
// goroutines call it, several at once, and wait for it: it should be quick. A panic of
// it is not recovered. From the first stage on whose device works by itself, as a GPU does,
// what was done for a batch is known only later, and its Wait calls the observer.
type Observer interface {
	Worked(Work)
}

// Work is what a stage did for one batch, in this order: it took the batch,
// brought its activations to the device, waited for the device, and had its
// layers work.
//
// A stage whose device works by itself only enqueues all that, and takes the next
// batch: Transfer and Turn are the stage's own time then, Began and Compute are the
// device's.
type Work struct {
	Stage    int    // its place in the pipeline, from 0
	Replica  int    // of that stage, from 0
	Device   string // "cpu:0"
	Layers   string // "blocks 0-3"
	Batch    uint64 // the batch's Number
	Rows     int
	Received time.Time     // when it took the batch
	Transfer time.Duration // until the activations were there
	Turn     time.Duration // until stages that use the same device let it in
	Compute  time.Duration // that it had its device, or that the device worked
	Began    time.Time     // when the device began, where it works by itself; else zero: after Turn
	Err      error         // what the batch failed of, here

	order uint64        // of the batch among the stage's, from 1
	empty time.Duration // the traffic's, when the stage took it
}

// Ended is when the stage, or its device, was done with the batch.
func (w Work) Ended() time.Time {
	if !w.Began.IsZero() {
		return w.Began.Add(w.Compute)
	}
	return w.Received.Add(w.Transfer + w.Turn + w.Compute)
}

// Stats is what a stage has done since it was loaded. Of a device that works by
// itself, as a GPU does, a batch counts when its Wait has passed the stage; Busy is
// then the device's time, in which the stage may have enqueued other batches or
// have been blocked, and Bubbles are when neither device nor stage had a batch.
type Stats struct {
	Busy     time.Duration // that it had its device, or that the device worked for it
	Transfer time.Duration // that it took to bring activations to its device, or to enqueue that
	Turn     time.Duration // that it waited for its device, which other stages use too
	Blocked  time.Duration // that it waited for the next stage to take a batch, or as the last one for the results to be dealt with
	Bubbles  time.Duration // that it had no batch while others had, from its first to its latest one
	Batches  int64
	Rows     int64
}

// Plus adds up what two have done.
func (s Stats) Plus(o Stats) Stats {
	s.Busy += o.Busy
	s.Transfer += o.Transfer
	s.Turn += o.Turn
	s.Blocked += o.Blocked
	s.Bubbles += o.Bubbles
	s.Batches += o.Batches
	s.Rows += o.Rows
	return s
}

// Stats may be called at any time, from any goroutine.
func (s *Stage) Stats() Stats { return s.meter.stats() }

// Observe has the observer told of the stage's work, as that of a replica of its
// place in the pipeline, and bubbles counted by the pipeline's traffic. Either
// may be nil. It is called before Run.
func (s *Stage) Observe(o Observer, t *Traffic, replica int) {
	s.meter.observer, s.meter.traffic = o, t
	s.meter.work = Work{Stage: s.meter.number, Replica: replica, Device: s.meter.device, Layers: s.meter.layers}
}

// place is what an error or a measurement says about where it was made.
type place struct {
	number         int    // the stage's place in the pipeline, from 0
	layers, device string // what it runs, and on what
}

func (p *place) failure(layer string, err error) *Error {
	return &Error{Stage: p.number, Layers: p.layers, Layer: layer, Device: p.device, Err: err}
}

// meter measures one stage. Anybody may read its counters; the rest belongs to
// the stage's goroutine.
type meter struct {
	place
	observer Observer
	traffic  *Traffic
	work     Work          // on the batch at hand
	recent   atomic.Int64  // nanoseconds that the latest batch took the goroutine of the stage
	base     time.Time     // times are counted from it: that is cheaper than to read the clock as time.Now does
	at       time.Duration // of the latest lap
	empty    time.Duration // the traffic's, at that time
	timed    bool          // the device works by itself, and its events tell when

	busy, transfer, turn, blocked, bubbles, batches, rows atomic.Int64

	settling sync.Mutex // guards latest: several may wait for batches of one stage
	latest   Work       // of those of which is known when the device was done
}

func (m *meter) start() { m.base, m.at, m.empty = time.Now(), 0, m.traffic.Empty() }

// lap returns how long it is since the latest lap.
func (m *meter) lap() time.Duration {
	before := m.at
	m.at = time.Since(m.base)
	return m.at - before
}

// received says that the stage waits no more.
func (m *meter) received(b *Batch) {
	waited := m.lap()
	if !m.timed && m.batches.Load() > 0 {
		m.bubbles.Add(int64(max(0, waited-(m.traffic.Empty()-m.empty))))
	}
	w := &m.work
	w.Batch, w.Rows, w.Received = b.Number, len(b.Header.Tokens), m.base.Add(m.at)
	w.Transfer, w.Turn, w.Compute, w.Err = 0, 0, 0, nil
}

// worked counts the work on a batch, which may have failed, or leaves it to Wait
// where the device may not be done. So it leaves what the observer is to be told of
// the stages after that one.
func (m *meter) worked(b *Batch) {
	w, k := &m.work, &b.marks[len(b.marks)-1]
	w.Err, k.took = b.Err(), w.Compute
	m.recent.Store(int64(w.Compute))
	if m.timed {
		w.order++
		w.empty = m.traffic.Empty()
	} else {
		m.count(w)
	}
	switch {
	case m.timed || len(b.open) > 0:
		b.open = append(b.open, *w)
		k.open = len(b.open)
	case m.observer != nil:
		m.observer.Worked(*w)
	}
}

func (m *meter) count(w *Work) {
	m.transfer.Add(int64(w.Transfer))
	m.turn.Add(int64(w.Turn))
	m.busy.Add(int64(w.Compute))
	m.batches.Add(1)
	m.rows.Add(int64(w.Rows))
}

// settle deals with work that worked left open, when its mark has been passed, with
// err. It began after the stage before was done, of which two devices may tell times
// that don't fit, for each is a wake-up late. Any goroutine may call it.
func (m *meter) settle(k *mark, w *Work, after time.Time, err error) {
	if w.Err == nil {
		w.Err = err
	}
	if m.timed {
		began, ended := k.event.(device.Timed).Span()
		if began.Before(w.Received) { // where the device can't tell, for it was lost
			began = w.Received
		}
		k.took = max(0, ended.Sub(began))
		if began.Before(after) {
			began = after
		}
		w.Began, w.Compute = began, max(0, ended.Sub(began))
		m.count(w)
		m.idle(w)
	}
	if m.observer != nil {
		m.observer.Worked(*w)
	}
}

// idle counts the time from when the device was done with the batch before until
// the stage got this one, without that in which there were no batches: as all of
// them end before the next enters, that is what came up since the stage took the
// one before. Where batches of several routes are waited for out of order, the
// time between two is left out.
func (m *meter) idle(w *Work) {
	m.settling.Lock()
	defer m.settling.Unlock()
	if last := &m.latest; last.order > 0 && w.order == last.order+1 {
		m.bubbles.Add(int64(max(0, w.Received.Sub(last.Ended())-(w.empty-last.empty))))
	}
	if w.order > m.latest.order {
		m.latest = *w
	}
}

// sent says that the next stage has the batch.
func (m *meter) sent() {
	m.blocked.Add(int64(m.lap()))
	m.empty = m.traffic.Empty()
}

func (m *meter) stats() Stats {
	span := func(c *atomic.Int64) time.Duration { return time.Duration(c.Load()) }
	return Stats{
		Busy:     span(&m.busy),
		Transfer: span(&m.transfer),
		Turn:     span(&m.turn),
		Blocked:  span(&m.blocked),
		Bubbles:  span(&m.bubbles),
		Batches:  m.batches.Load(),
		Rows:     m.rows.Load(),
	}
}
