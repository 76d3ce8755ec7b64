package generate

import (
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/pipeline/histogram"
)

// Latency is how long requests wait for what, in buckets as histogram.Times has
// them. Logits don't count.
type Latency struct {
	Queue      histogram.Snapshot[time.Duration] // from a request's arrival until its first rows are sent
	FirstToken histogram.Snapshot[time.Duration] // from a request's arrival to its first token
	Token      histogram.Snapshot[time.Duration] // from a token to the next of the same request
}

// Totals is what has come of the requests so far. Logits don't count.
type Totals struct {
	Stopped, Reached, Cancelled, Failed int64 // requests, by how they ended: Stop, Length, Cancelled, Failed
	Prompt, Generated                   int64 // tokens: of prompts of requests that arrived, and tokens added
}

// Latency may be called at any time, after Close too.
func (e *Engine) Latency() Latency {
	return Latency{e.measures.queue.Snapshot(), e.measures.first.Snapshot(), e.measures.token.Snapshot()}
}

// Totals may be called at any time, after Close too.
func (e *Engine) Totals() Totals {
	m := &e.measures
	return Totals{
		Stopped:   m.stopped.Load(),
		Reached:   m.reached.Load(),
		Cancelled: m.cancelled.Load(),
		Failed:    m.failed.Load(),
		Prompt:    m.prompt.Load(),
		Generated: m.generated.Load(),
	}
}

// BatchRows is how many rows the batches had so far.
func (e *Engine) BatchRows() histogram.Snapshot[int] { return e.line.BatchRows() }

// measures is what the engine's goroutine notes and anybody may read.
type measures struct {
	queue, first, token *histogram.Histogram[time.Duration]

	stopped, reached, cancelled, failed, prompt, generated atomic.Int64
}

func newMeasures() measures {
	limits := histogram.Times()
	return measures{queue: histogram.New(limits), first: histogram.New(limits), token: histogram.New(limits)}
}

// moments is when things happened to a sequence.
type moments struct {
	asked time.Time // by its caller; zero: nobody waits for it
	begun bool      // rows of it were sent
	token time.Time // the latest one
}

func (m *measures) arrived(s *request) {
	if !s.Scored() {
		m.prompt.Add(int64(s.prompt))
	}
}

// sent notes that the sequences have rows in a batch.
func (m *measures) sent(f *flight) {
	var now time.Time
	for _, p := range f.Parts {
		r := p.Seq.Owner.(*request)
		t := &r.moments
		if t.begun || r.Scored() {
			continue
		}
		if now.IsZero() { // once a batch, if at all
			now = time.Now()
		}
		t.begun = true
		m.queue.Add(now.Sub(t.asked))
	}
}

// wrote notes that a sequence has got a token.
func (m *measures) wrote(s *request, at time.Time) {
	m.generated.Add(1)
	if s.moments.token.IsZero() {
		m.first.Add(at.Sub(s.moments.asked))
	} else {
		m.token.Add(at.Sub(s.moments.token))
	}
	s.moments.token = at
}

func (m *measures) ended(s *request, finish Finish) {
	switch {
	case s.Scored():
	case finish == Stop:
		m.stopped.Add(1)
	case finish == Length:
		m.reached.Add(1)
	case finish == Cancelled:
		m.cancelled.Add(1)
	default:
		m.failed.Add(1)
	}
}
