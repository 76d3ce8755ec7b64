package pipeline

import (
	"time"

	"github.com/leat-dev/leat/stage"
)

// Observer is called for every batch: when the batch has been filled, after each stage,
// and when its results have been handled. Package pipeline/trace has an observer that
// writes a trace of a pipeline.
//
// The pipeline calls an observer on the goroutines that do the work, possibly several at
// once, and they wait for it: an observer should return quickly. It may read Stats and
// Err of the pipeline. It must not call methods that wait for batches, such as
// [Pipeline.Do], since these batches may wait for the observer. Package generate says what
// an observer of an engine may call. A panic of an observer is not recovered, and an
// observer must not call runtime.Goexit.
type Observer interface {
	// Filled is called before the batch is sent to the first stage.
	Filled(Handling)

	// Worked is called after each stage, in the stages' order.
	stage.Observer

	// Emptied is the last call for a batch: its results have been copied to the callers,
	// or its error has been passed to them.
	Emptied(Handling)
}

// Handling says how long it took to fill a batch with rows, or to handle its results.
type Handling struct {
	Batch   uint64    // the batch's stage.Message.Number, from 1
	Rows    int       // the rows in the batch
	Outputs int       // how many of these rows want results
	Began   time.Time // when the filling, or the handling, began
	Ended   time.Time // when it ended
	Err     error     // the batch's error, if it failed
}

// Begin tells the line that its user begins to fill a batch, or to handle its results,
// so that observers get the time that this takes. Without a call of Begin they get a
// duration of 0.
func (l *Line) Begin(b *stage.Batch) {
	if l.plan.config.observer != nil {
		b.Begun = time.Now()
	}
}

// filled gives a batch its number and calls the observer.
func (l *Line) filled(b *stage.Batch) {
	b.Number = l.numbers.Add(1)
	l.rows.Add(len(b.Header.Tokens))
	if o := l.plan.config.observer; o != nil {
		o.Filled(handled(b))
	}
}

// emptied calls the observer, if the batch was filled.
func (l *Line) emptied(b *stage.Batch) {
	if o := l.plan.config.observer; o != nil && b.Number > 0 {
		o.Emptied(handled(b))
	}
}

// handled returns the Handling that ends now.
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
