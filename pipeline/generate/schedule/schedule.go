// Package schedule decides whose rows the next micro-batch carries: which
// sequences are admitted, on which route, in which pages their keys and values
// lie, and who is preempted when pages run out.
//
// A [Scheduler] is a data structure and nothing else. It starts no goroutine,
// holds no lock and reads no clock: its owner calls it from one goroutine at a
// time (or under a lock) and passes the time in. It knows nothing of models,
// samplers, devices and callers.
package schedule

import (
	"time"

	"github.com/leat-dev/leat/kernels"
)

// Config says what there is to schedule for.
type Config struct {
	Routes     []Route
	MaxRows    int // rows in a batch, at least 1
	MaxOutputs int // output rows in a batch, at least 1
	MaxSeqs    int // sequences that are admitted at once, at least 1

	// Grace is how long an admitted sequence may wait for its caller, for a token
	// to be appended or for output rows to be taken, while others starve: after
	// that it is displaced.
	Grace time.Duration
}

// Route describes one way through the stages. A sequence stays on its route while
// it is admitted, and a batch holds rows of one route.
type Route struct {
	Pages    int     // pages of kernels.PageTokens tokens for its sequences
	Stages   []Stage // in order
	InFlight int     // the most batches in flight, at least 1
	Fixed    bool    // always use that many, whatever has been learned of the stages
}

// Stage describes one stage of a route.
type Stage struct {
	Device string // stages of one name take turns
	Routes int    // how many routes that device serves at this stage, at least 1
}

// Scheduler holds all sequences that were added and have not been removed.
type Scheduler struct{}

// New returns a scheduler without sequences, all of whose routes are up.
func New(c Config) *Scheduler { return &Scheduler{} }

// Add queues a new sequence. It is an error if the sequence has no token, or more
// tokens than Most, or if a route's pages don't hold Most tokens. It takes O(log n)
// for n waiting sequences.
func (c *Scheduler) Add(s *Sequence) error { return nil }

// Remove takes a sequence out, in whatever state it is. Its pages are free once
// no batch in flight works on them. It takes O(log n), and does nothing to a
// sequence that is not, or no longer, in the scheduler.
func (c *Scheduler) Remove(s *Sequence) {}

// Append adds the token that was chosen by a sequence's output row, however long
// ago that row came back. The caller removes the sequence instead where it ends.
// Append does nothing to a sequence that was removed. It panics if no token was
// due, or if the sequence has Most tokens already.
func (c *Scheduler) Append(s *Sequence, token int32) {}

// Taken says that the caller of a scored sequence has taken n more of its output
// rows.
func (c *Scheduler) Taken(s *Sequence, n int) {}

// Next admits the sequences that there is room for, and returns the route that the
// next batch should be filled for; ok is false if there is none now. A batch of
// few rows is held back for up to patience while more may come.
//
// If ok is false and wait is positive, Next should be called again when that time
// has passed, or when the scheduler has been changed before. Otherwise only a
// change can lead to another batch. Time must not run backwards between calls.
func (c *Scheduler) Next(now time.Time, patience time.Duration) (route int, ok bool, wait time.Duration) {
	return 0, false, 0
}

// Fill puts the rows of the next batch of a route into an empty header, records
// them in b and returns how many they are. The batch is in flight then, until
// Returned or Failed is called with it. If there are 0 rows, because those who
// could go wait for pages, the batch is not in flight.
func (c *Scheduler) Fill(route int, h *kernels.Header, b *Batch) (rows int) { return 0 }

// Returned says that a batch has come out of the last stage without an error, and
// how long it had each stage. Batches of a route return in the order in which they
// were filled. Returned marks the parts whose output rows must not be used; of all
// others, every sequence with output rows is the caller's to continue: with Append
// or Remove, or a scored one with Taken and, after its last row, Remove.
func (c *Scheduler) Returned(now time.Time, b *Batch, took []time.Duration) {}

// Failed says that a batch has failed, or could not be sent. Its sequences are
// computed again on another route where there is one that is up and on which they
// have not failed. The others are removed and returned; the slice is valid until
// the next call of Failed or Down.
func (c *Scheduler) Failed(b *Batch) (ended []*Sequence) { return nil }

// Down takes a route out of use: nobody is admitted there until Up. Its sequences
// go elsewhere or are removed and returned, as by Failed. Sequences that wait stay,
// even if no route is up.
func (c *Scheduler) Down(route int) (ended []*Sequence) { return nil }

// Up puts a route into use, and cancels a probe of it that has not been sent.
func (c *Scheduler) Up(route int) {}

// Probe makes the next batch of a route, be it up or down, a single row that
// belongs to no sequence. Nothing else is sent there until it has come back.
func (c *Scheduler) Probe(route int) {}

// Counts is what a scheduler holds, and what it has done so far.
type Counts struct {
	Up        int // routes that are up
	Running   int // sequences that are admitted
	Waiting   int // sequences that wait to be admitted
	FreePages int // pages that no sequence uses; some hold beginnings that may be used again
	Pages     int // in all
	Preempted int // how often a sequence gave up its pages to others, to be computed again
	Reused    int // tokens that were not computed, because their pages were in the prefix cache
	Moved     int // how often a sequence left a route that had failed it, for another
}

// Counts returns the present counts.
func (c *Scheduler) Counts() Counts { return Counts{} }
