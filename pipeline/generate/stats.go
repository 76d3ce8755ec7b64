package generate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/pipeline/histogram"
)

// Stats sums up what an engine has done since it was started, and counts its present
// requests.
type Stats struct {
	// Present requests, including those of Logits.
	Running int // admitted: they have pages, and their rows are computed
	Waiting int // not admitted yet, or preempted

	// Requests that have ended, by their Finish. These numbers, and the tokens and times
	// below, don't include requests of Logits.
	Stopped, ReachedLength, Cancelled, Failed int64

	PromptTokens    int64 // tokens in the prompts of all requests
	GeneratedTokens int64 // tokens that were generated
	ReusedTokens    int64 // tokens of prompts that were not computed because the prefix cache had them

	Preempted int64 // how many times a request has lost its pages to another and was computed again
	Moved     int64 // how many times a request was moved away from a route on which it had failed

	Pages     int // pages of kernels.PageTokens tokens, on all routes together
	FreePages int // pages that no request uses; some of them hold prefixes that may be reused
	Routes    int // routes that work

	// Times of requests, in the buckets of histogram.Times.
	Queue      histogram.Snapshot[time.Duration] // from a request's arrival until its first rows are sent
	FirstToken histogram.Snapshot[time.Duration] // from a request's arrival to its first token
	Token      histogram.Snapshot[time.Duration] // from one token of a request to the next

	Rows   histogram.Snapshot[int] // the numbers of rows of the batches that were sent
	Stages []pipeline.StageStats   // in forward order
}

// Stats returns what the engine has done so far. It never blocks for long. It may also be
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
