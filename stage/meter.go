package stage

import (
	"sync/atomic"
	"time"
)

// Observer is told what stages do. Their goroutines call it, several at once, and
// wait for it: it should be quick, and may not panic.
type Observer interface {
	Worked(Work)
}

// Work is what a stage did for one batch, in this order: it took the batch,
// brought its activations to the device, waited for the device, and had its
// layers work. A device that works by itself, as a GPU does, may not be done yet
// when Compute ends.
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
	Compute  time.Duration // that it had its device
	Err      error         // what the batch failed of, here
}

// Ended is when the stage was done with the batch.
func (w Work) Ended() time.Time { return w.Received.Add(w.Transfer + w.Turn + w.Compute) }

// Stats is what a stage has done since it was loaded.
type Stats struct {
	Busy     time.Duration // that it had its device
	Transfer time.Duration // that it took to bring activations to its device
	Turn     time.Duration // that it waited for its device, which other stages use too
	Blocked  time.Duration // that it waited for the next stage to take a batch
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
	s.meter.work = Work{Stage: s.number, Replica: replica, Device: s.device.Info().Name, Layers: s.layers}
}

// meter measures one stage. Anybody may read its counters; the rest belongs to
// the stage's goroutine.
type meter struct {
	observer Observer
	traffic  *Traffic
	work     Work          // on the batch at hand
	base     time.Time     // times are counted from it: that is cheaper than to read the clock as time.Now does
	at       time.Duration // of the latest lap
	empty    time.Duration // the traffic's, at that time

	busy, transfer, turn, blocked, bubbles, batches, rows atomic.Int64
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
	if m.batches.Load() > 0 {
		m.bubbles.Add(int64(max(0, waited-(m.traffic.Empty()-m.empty))))
	}
	w := &m.work
	w.Batch, w.Rows, w.Received = b.Number, len(b.Header.Tokens), m.base.Add(m.at)
	w.Transfer, w.Turn, w.Compute, w.Err = 0, 0, 0, nil
}

// worked counts the work on a batch, which ended with err.
func (m *meter) worked(err error) {
	w := &m.work
	m.transfer.Add(int64(w.Transfer))
	m.turn.Add(int64(w.Turn))
	m.busy.Add(int64(w.Compute))
	m.batches.Add(1)
	m.rows.Add(int64(w.Rows))
	if m.observer != nil {
		w.Err = err
		m.observer.Worked(*w)
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
