package generate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/pipeline/histogram"
)

// Stats is what an engine has done since it was started, and what it has to do now.
type Stats struct {
	// Requests as they are now, those of Logits included.
	Running int // admitted: they have pages, and rows of them are computed
	Waiting int // not admitted yet, or preempted

	// Requests that have ended, by how: Stop, Length, Cancelled, Failed. These, the
	// tokens, and the times below leave out those of Logits.
	Stopped, ReachedLength, Cancelled, Failed int64

	PromptTokens    int64 // of all requests that have arrived
	GeneratedTokens int64 // that were added
	ReusedTokens    int64 // of prompts, not computed because the prefix cache had them

	Preempted int64 // how often a request gave up its pages to another, to be computed again
	Moved     int64 // how often a request left a route that failed it for another

	Pages     int // of kernels.PageTokens tokens each, on all routes
	FreePages int // that no request uses; some of them hold prefixes that may be reused
	Routes    int // that work

	// How long requests waited, in buckets as histogram.Times has them.
	Queue      histogram.Snapshot[time.Duration] // from a request's arrival until its first rows are sent
	FirstToken histogram.Snapshot[time.Duration] // from a request's arrival to its first token
	Token      histogram.Snapshot[time.Duration] // from one token of a request to the next

	Rows   histogram.Snapshot[int] // of the batches that were sent
	Stages []pipeline.StageStats
}

// Stats returns a snapshot. It doesn't wait for the engine's other work, and may be
// called by a [Sampler], by a [pipeline.Observer], and after Close.
func (e *Engine) Stats() Stats {
	m := &e.measures
	n, blocked := m.present.get()
	line := e.line.Stats()
	return Stats{
		Running:         n.Running,
		Waiting:         n.Waiting + blocked,
		Stopped:         m.stopped.Load(),
		ReachedLength:   m.reached.Load(),
		Cancelled:       m.cancelled.Load(),
		Failed:          m.failed.Load(),
		PromptTokens:    m.prompt.Load(),
		GeneratedTokens: m.generated.Load(),
		ReusedTokens:    int64(n.Reused),
		Preempted:       int64(n.Preempted),
		Moved:           int64(n.Moved),
		Pages:           n.Pages,
		FreePages:       n.FreePages,
		Routes:          e.line.WorkingRoutes(),
		Queue:           m.queue.Snapshot(),
		FirstToken:      m.first.Snapshot(),
		Token:           m.token.Snapshot(),
		Rows:            line.Rows,
		Stages:          line.Stages,
	}
}

// measures is what the engine notes and anybody may read.
type measures struct {
	present             present
	queue, first, token *histogram.Histogram[time.Duration]

	stopped, reached, cancelled, failed, prompt, generated atomic.Int64
}

func newMeasures() measures {
	limits := histogram.Times()
	return measures{queue: histogram.New(limits), first: histogram.New(limits), token: histogram.New(limits)}
}

// present is the engine's state when it was last unlocked. It has a lock of its own, so
// that it can be read where the engine is locked, as by an observer.
type present struct {
	mu      sync.Mutex
	counts  schedule.Counts
	blocked int // requests beyond the backlog
}

func (p *present) set(n schedule.Counts, blocked int) {
	p.mu.Lock()
	p.counts, p.blocked = n, blocked
	p.mu.Unlock()
}

func (p *present) get() (schedule.Counts, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts, p.blocked
}

// moments is when things happened to a request.
type moments struct {
	asked time.Time // by its caller
	begun bool      // rows of it were sent
	token time.Time // the latest one
}

func (m *measures) arrived(r *request) {
	if !r.Scored() {
		m.prompt.Add(int64(r.prompt))
	}
}

// sent notes that requests have rows in a batch.
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

// wrote notes that a request has got a token.
func (m *measures) wrote(r *request, at time.Time) {
	m.generated.Add(1)
	if r.moments.token.IsZero() {
		m.first.Add(at.Sub(r.moments.asked))
	} else {
		m.token.Add(at.Sub(r.moments.token))
	}
	r.moments.token = at
}

func (m *measures) ended(r *request, finish Finish) {
	switch {
	case r.Scored():
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
