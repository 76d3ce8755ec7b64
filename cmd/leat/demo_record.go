package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// recorder is the pipeline.Observer of the demo's own pipeline. It keeps what the
// stages did for the batches of the first round, so that this can be drawn more
// slowly than it happened.
type recorder struct {
	mu      sync.Mutex
	began   time.Time // of the first round
	stages  int
	ended   bool
	visits  []visit
	excerpt *excerpt // once it is cut
}

// visit is a batch's stay in a stage: from when the stage received the batch until
// it was done with it, since the round began.
type visit struct {
	batch    uint64
	stage    int
	rows     int
	from, to time.Duration
}

// recordMost bounds the visits that are kept, whatever -n says.
const recordMost = 1 << 13

func newRecorder() *recorder { return new(recorder) }

// begin starts the record of a round through so many stages.
func (r *recorder) begin(stages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.stages = time.Now(), stages
}

// end says that the round is over.
func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// Filled implements pipeline.Observer.
func (r *recorder) Filled(pipeline.Handling) {}

// Emptied implements pipeline.Observer.
func (r *recorder) Emptied(pipeline.Handling) {}

// Worked implements stage.Observer.
func (r *recorder) Worked(w stage.Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() || r.ended || w.Err != nil || len(r.visits) >= recordMost {
		return
	}
	r.visits = append(r.visits, visit{w.Batch, w.Stage, w.Rows, w.Received.Sub(r.began), w.Ended().Sub(r.began)})
}

// cut returns the part of the record that is drawn, or nil while there is not yet
// enough of it. Once it is cut it stays the same.
func (r *recorder) cut() *excerpt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.excerpt == nil && (r.ended || len(r.visits) >= 3*excerptBatches*r.stages) {
		r.excerpt = newExcerpt(r.visits, r.stages)
	}
	return r.excerpt
}

// excerpt is a few batches on their way through all stages. Times begin at 0, when
// the first stage received the first of them.
type excerpt struct {
	first  uint64 // the number of its first batch
	stages [][]visit
	length time.Duration // until the last stage was done with the last batch
	visit  time.Duration // the median of the visits' lengths
}

// excerptBatches is how many batches an excerpt has, where there are as many.
const excerptBatches = 12

// newExcerpt cuts neighbouring batches out of a record, or returns nil where no
// batch went through all stages. Batches of prompts, at the beginning, are longer
// than the others, and now and then something else takes a core: of all places
// after the first third, it takes one of median length.
func newExcerpt(visits []visit, stages int) *excerpt {
	all := map[uint64][]visit{}
	for _, v := range visits {
		all[v.batch] = append(all[v.batch], v)
	}
	var batches []uint64
	for b, passed := range all {
		if len(passed) == stages {
			batches = append(batches, b)
		}
	}
	if len(batches) == 0 {
		return nil
	}
	slices.Sort(batches)
	n := min(excerptBatches, len(batches))
	var places []*excerpt
	for at := min(len(batches)/3, len(batches)-n); at+n <= len(batches); at++ {
		e := &excerpt{first: batches[at], stages: make([][]visit, stages)}
		for _, b := range batches[at : at+n] {
			for _, v := range all[b] {
				e.stages[v.stage] = append(e.stages[v.stage], v)
			}
		}
		e.settle()
		places = append(places, e)
	}
	slices.SortStableFunc(places, func(a, b *excerpt) int { return cmp.Compare(a.length, b.length) })
	return places[(len(places)-1)/2]
}

// settle has the excerpt's times begin at 0, its visits in order, and its lengths
// right.
func (e *excerpt) settle() {
	for _, line := range e.stages {
		slices.SortFunc(line, func(a, b visit) int { return cmp.Compare(a.from, b.from) })
	}
	begin := e.stages[0][0].from
	var lengths []float64
	for _, line := range e.stages {
		for i := range line {
			v := &line[i]
			v.from, v.to = v.from-begin, v.to-begin
			e.length = max(e.length, v.to)
			lengths = append(lengths, float64(v.to-v.from))
		}
	}
	e.visit = time.Duration(median(lengths))
}

// batches is the numbers of the excerpt's batches, in the order of the first
// stage.
func (e *excerpt) batches() (numbers []uint64) {
	for _, v := range e.stages[0] {
		numbers = append(numbers, v.batch)
	}
	return numbers
}

// of returns a batch's visits, one a stage.
func (e *excerpt) of(batch uint64) (visits []visit) {
	for _, line := range e.stages {
		for _, v := range line {
			if v.batch == batch {
				visits = append(visits, v)
			}
		}
	}
	return visits
}

// present returns the visits that a stage has at a time.
func (e *excerpt) present(stage int, at time.Duration) (now []visit) {
	for _, v := range e.stages[stage] {
		if v.from <= at && at < v.to {
			now = append(now, v)
		}
	}
	return now
}

// waiting returns the batches that are between a stage, which is done with them,
// and the next, which hasn't received them yet.
func (e *excerpt) waiting(stage int, at time.Duration) (batches []uint64) {
	for _, v := range e.stages[stage] {
		if v.to > at {
			continue
		}
		for _, next := range e.stages[stage+1] {
			if next.batch == v.batch && at < next.from {
				batches = append(batches, v.batch)
			}
		}
	}
	return batches
}

// slower is how many times slower the excerpt is drawn than it happened, so that
// a visit takes so long.
func (e *excerpt) slower(visit time.Duration) float64 {
	return max(1, float64(visit)/float64(max(1, e.visit)))
}

// observers tells several observers of the same pipeline.
type observers []pipeline.Observer

// Filled implements pipeline.Observer.
func (all observers) Filled(h pipeline.Handling) {
	for _, o := range all {
		o.Filled(h)
	}
}

// Worked implements stage.Observer.
func (all observers) Worked(w stage.Work) {
	for _, o := range all {
		o.Worked(w)
	}
}

// Emptied implements pipeline.Observer.
func (all observers) Emptied(h pipeline.Handling) {
	for _, o := range all {
		o.Emptied(h)
	}
}
