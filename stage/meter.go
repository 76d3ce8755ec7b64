package stage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
)

// Observer is called after a stage has worked on a batch. For one batch, the calls
// come in the order of the stages.
//
// Stages call the observer on their own goroutines, possibly several at once, and wait
// for it to return, so that a slow observer slows the pipeline down. A panic of an
// observer is not recovered.
//
// Where a stage's device is asynchronous, as a GPU is, the times are known only when
// the device has finished. For that stage and the stages after it, [Batch.Wait] calls
// the observer.
type Observer interface {
	Worked(Work)
}

// Work describes what a stage did for one batch. The stage received the batch, brought
// the activations to its device (Transfer), waited while other stages used the device
// (Turn), and ran its layers (Compute).
//
// Where the device is asynchronous, the stage only enqueues that work. Transfer and
// Turn are then the time that the stage's goroutine spent, and Began and Compute are
// the time that the device spent.
type Work struct {
	Stage    int           // the stage's number in the pipeline, from 0
	Replica  int           // the number of the stage's replica, from 0
	Device   string        // the device's name, such as "cpu:0"
	Layers   string        // the stage's layers, such as "blocks 0-3"
	Batch    uint64        // the batch's Message.Number
	Rows     int           // the rows in the batch
	Received time.Time     // when the stage received the batch from its link
	Transfer time.Duration // time to bring the activations to the device
	Turn     time.Duration // time in which the stage waited for other stages on the same device
	Compute  time.Duration // time in which the layers ran
	Began    time.Time     // when an asynchronous device began to compute; zero for other devices
	Err      error         // the batch's error, if it failed in this stage or before

	order uint64        // the position of the batch among the stage's batches, from 1
	empty time.Duration // for how long the pipeline had had no batch when the stage received it
}

// Ended returns when the stage's device had finished the batch.
func (w Work) Ended() time.Time {
	if !w.Began.IsZero() {
		return w.Began.Add(w.Compute)
	}
	return w.Received.Add(w.Transfer + w.Turn + w.Compute)
}

// Stats sums up what a stage has done since it was loaded.
//
// Where the stage's device is asynchronous, a batch counts when its Wait has returned.
// Busy is then the device's time, which overlaps with the time in which the stage
// enqueues other batches or is blocked. Bubbles are the times at which neither the
// device nor the stage had a batch.
type Stats struct {
	Busy     time.Duration // time in which the layers ran
	Transfer time.Duration // time in which activations were brought to the device
	Turn     time.Duration // time in which the stage waited for other stages on the same device
	Blocked  time.Duration // time in which the link to the next stage was full; for the last stage, time in which the results were handled
	Bubbles  time.Duration // time in which the stage had no batch although the pipeline had some, from its first batch to its latest
	Batches  int64         // the batches that the stage has worked on
	Rows     int64         // the rows in these batches
}

// Plus returns the sums of s and o.
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

// Stats returns what the stage has done so far. It may be called at any time, from any
// goroutine.
func (s *Stage) Stats() Stats { return s.meter.stats() }

// Observe makes the stage call the observer for each batch, with the number of this
// replica in Work.Replica. empty returns for how long the whole pipeline has had no
// batch so far; that time doesn't count as Stats.Bubbles. Both o and empty may be nil.
// Observe must be called before Run.
func (s *Stage) Observe(o Observer, empty func() time.Duration, replica int) {
	s.meter.observer, s.meter.pipeline = o, empty
	s.meter.work = Work{Stage: s.meter.number, Replica: replica, Device: s.meter.device, Layers: s.meter.layers}
}

// identity is what errors and measurements say about the stage that they come from.
type identity struct {
	number         int    // the stage's number in the pipeline, from 0
	layers, device string // its layers, as Describe returns them, and its device's name
}

func (p *identity) failure(layer string, err error) *Error {
	return &Error{Stage: p.number, Layers: p.layers, Layer: layer, Device: p.device, Err: err}
}

// meter measures one stage. Any goroutine may read the counters. All other fields are
// used by the stage's goroutine alone, unless their comments say otherwise.
type meter struct {
	identity
	observer Observer
	pipeline func() time.Duration // for how long the pipeline has had no batch; nil: not known
	work     Work                 // what the stage does for its current batch
	recent   atomic.Int64         // nanoseconds that the stage's goroutine spent on its latest batch
	base     time.Time            // laps are measured from it with time.Since, which is cheaper than time.Now
	at       time.Duration        // when the latest lap ended, from base
	empty    time.Duration        // for how long the pipeline had had no batch at that time
	timed    bool                 // the device is asynchronous, and its events say when it began and ended

	busy, transfer, turn, blocked, bubbles, batches, rows atomic.Int64

	settling sync.Mutex // guards latest, since several goroutines may wait for batches of one stage
	latest   Work       // the latest work that an asynchronous device is known to have finished
}

// start begins the first lap.
func (m *meter) start() { m.base, m.at, m.empty = time.Now(), 0, m.pipelineEmpty() }

// pipelineEmpty returns for how long the pipeline has had no batch so far.
func (m *meter) pipelineEmpty() time.Duration {
	if m.pipeline == nil {
		return 0
	}
	return m.pipeline()
}

// lap ends a lap and returns how long it took.
func (m *meter) lap() time.Duration {
	before := m.at
	m.at = time.Since(m.base)
	return m.at - before
}

// received begins the work on a batch that the stage has just received, and counts the
// time that the stage waited for it as a bubble if other stages had batches meanwhile.
func (m *meter) received(b *Batch) {
	waited := m.lap()
	if !m.timed && m.batches.Load() > 0 {
		m.bubbles.Add(int64(max(0, waited-(m.pipelineEmpty()-m.empty))))
	}
	w := &m.work
	w.Batch, w.Rows, w.Received = b.Number, len(b.Header.Tokens), m.base.Add(m.at)
	w.Transfer, w.Turn, w.Compute, w.Err = 0, 0, 0, nil
}

// worked ends the work on a batch, which may have failed. If the device may still be
// computing, Batch.Wait counts the work and calls the observer. Wait also calls the
// observer for all later stages, so that the calls for a batch come in order.
func (m *meter) worked(b *Batch) {
	w, k := &m.work, &b.marks[len(b.marks)-1]
	w.Err, k.took = b.Err(), w.Compute
	m.recent.Store(int64(w.Compute))
	if m.timed {
		w.order++
		w.empty = m.pipelineEmpty()
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

// count adds work to the counters.
func (m *meter) count(w *Work) {
	m.transfer.Add(int64(w.Transfer))
	m.turn.Add(int64(w.Turn))
	m.busy.Add(int64(w.Compute))
	m.batches.Add(1)
	m.rows.Add(int64(w.Rows))
}

// settle counts work for which worked has not called the observer, and calls it. The
// event of the mark k has completed with err. after is when the stage before ended: the
// clocks of two devices may disagree by the time that a wake-up takes, and the work is
// counted as if it had not begun earlier. Any goroutine may call settle.
func (m *meter) settle(k *mark, w *Work, after time.Time, err error) {
	if w.Err == nil {
		w.Err = err
	}
	if m.timed {
		began, ended := k.event.(device.Timed).Span()
		if began.Before(w.Received) { // the device was lost, and doesn't know
			began = w.Received
		}
		k.took = max(0, ended.Sub(began))
		if began.Before(after) {
			began = after
		}
		w.Began, w.Compute = began, max(0, ended.Sub(began))
		m.count(w)
		m.countBubble(w)
	}
	if m.observer != nil {
		m.observer.Worked(*w)
	}
}

// countBubble counts the time from the end of the device's previous batch until the
// stage received this one, less the time in which the whole pipeline was empty. That is
// how much w.empty has grown since the stage received the previous batch, because the
// pipeline is only empty after all its batches have ended. If batches of several routes
// are waited for out of order, the time between two of them is not counted.
func (m *meter) countBubble(w *Work) {
	m.settling.Lock()
	defer m.settling.Unlock()
	if last := &m.latest; last.order > 0 && w.order == last.order+1 {
		m.bubbles.Add(int64(max(0, w.Received.Sub(last.Ended())-(w.empty-last.empty))))
	}
	if w.order > m.latest.order {
		m.latest = *w
	}
}

// sent counts the time that it took to send the batch to the next stage.
func (m *meter) sent() {
	m.blocked.Add(int64(m.lap()))
	m.empty = m.pipelineEmpty()
}

// stats returns the counters.
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
