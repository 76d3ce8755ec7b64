package pipeline

import (
	"time"

	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// Observer is told of every batch: when it was filled, what each stage did for
// it, and when its results were dealt with. The goroutines that do the work call
// it, several at once, and wait for it: it should be quick. A panic of it is not
// recovered.
// Package pipeline/trace has one that draws a pipeline at work.
type Observer interface {
	// Filled comes before the first stage gets the batch.
	Filled(Handling)

	// Worked comes after each stage, in their order; see stage.Observer.
	stage.Observer

	// Emptied is the last that is told of a batch.
	Emptied(Handling)
}

// Handling is what whoever forms batches did with one: it put rows in, or took
// results out.
type Handling struct {
	Batch   uint64 // its number, from 1
	Rows    int
	Outputs int // rows that want output
	Began   time.Time
	Ended   time.Time
	Err     error // of a batch that failed
}

// WithObserver has an observer told of what the pipeline does. It may be given several
// times: all observers are told then, in the order in which they were given. Without an
// observer nothing is measured for one. A nil observer is ignored.
func WithObserver(o Observer) Option {
	return func(c *Config) error { c.Observer = join(c.Observer, o); return nil }
}

// Begin notes, for an observer, that the caller begins to fill a batch, or to
// deal with what came out of it. Who doesn't call it is taken to need no time.
func (l *Line) Begin(b *stage.Batch) {
	if l.plan.config.Observer != nil {
		b.Begun = time.Now()
	}
}

// filled gives a batch its number and tells the observer.
func (l *Line) filled(b *stage.Batch) {
	b.Number = l.numbers.Add(1)
	l.rows.Add(len(b.Header.Tokens))
	if o := l.plan.config.Observer; o != nil {
		o.Filled(handled(b))
	}
}

// emptied tells the observer of a batch that was filled.
func (l *Line) emptied(b *stage.Batch) {
	if o := l.plan.config.Observer; o != nil && b.Number > 0 {
		o.Emptied(handled(b))
	}
}

func handled(b *stage.Batch) Handling {
	h := Handling{
		Batch:   b.Number,
		Rows:    len(b.Header.Tokens),
		Outputs: len(b.Header.Outputs),
		Began:   b.Begun,
		Ended:   time.Now(),
		Err:     b.Err(),
	}
	if b.Begun.IsZero() {
		h.Began = h.Ended
	}
	b.Begun = time.Time{}
	return h
}

// BatchRows is how many rows the batches had that were sent.
func (l *Line) BatchRows() histogram.Snapshot[int] { return l.rows.Snapshot() }
