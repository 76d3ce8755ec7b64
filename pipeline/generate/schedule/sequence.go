package schedule

import (
	"time"

	"github.com/leat-dev/leat/kernels"
)

// Sequence is one request as the scheduler sees it. Its creator sets the exported
// fields and hands it to Scheduler.Add, once; from then on only the scheduler
// changes it.
type Sequence struct {
	Owner any // the request that it stands for; the scheduler does not use it

	// Tokens are those of the prompt, followed by those that Append has added. While
	// a token is due, from the return of the batch with the sequence's output row to
	// Append, the scheduler does not write to Tokens: they may be read elsewhere.
	Tokens []int32
	// Most is how many tokens there may ever be, at least len(Tokens).
	Most int

	Priority int  // higher goes first; among equals, who was added first
	Want     Want // what is needed of each output row

	// Window, if it is positive, makes the sequence a scored one: an output row of
	// every token is wanted, none is appended, and no more than Window output rows
	// are computed beyond those that Taken has been told of.
	Window int

	arrival uint64 // the lower one came first
	state   state
	due     bool // an output row is in flight or back, and its token has not been appended
	scores  int  // of a scored sequence, how many output rows have come back
	taken   int  // how many of them its caller has taken

	// Where its keys and values are while it is admitted.
	route  *route
	avoid  []*route // those that have failed it
	table  []int32  // its pages, from position 0 on
	shared int      // how many of them, the first, are blocks of the prefix cache
	alone  bool     // the cache has the same tokens in other pages: its own stay out

	// How far it is. sent ≥ computed; both begin again when it is admitted again.
	prompt   int // tokens there were when it was admitted: these are sent in chunks
	sent     int // tokens that have been put into batches
	computed int // how many of them have come back
	flying   int // batches that it is in
	spoiled  bool
	since    time.Time // when it became stalled

	// What of it the next batches may take.
	unsent  int // rows in chunks that could be sent now
	granted int // how many of them the batch that is being filled has room for

	places     [heaps]int // its position in each heap, from 1; 0: it is not there
	list       *list
	prev, next *Sequence
}

// state is where a sequence is on its way.
type state uint8

const (
	fresh    state = iota // not added yet
	waiting               // in Scheduler.waiting
	parked                // waits for its caller before it may be admitted again
	admitted              // on a route, and takes part
	leaving               // on a route until its last batch is back; then it waits again
	ended                 // removed; on a route until its last batch is back
)

// Scored says whether an output row of every token is wanted.
func (s *Sequence) Scored() bool { return s.Window > 0 }

// ready says whether it is worth admitting s: it can come further than it was.
// What was displaced because its caller was slow would otherwise be computed again
// only to be as far as before.
func (s *Sequence) ready() bool {
	if s.Scored() {
		return s.scores-s.taken <= s.Window/2
	}
	return !s.due
}

// prefilling says whether rows of s are sent in chunks; if not, it decodes.
func (s *Sequence) prefilling() bool { return s.sent < s.prompt }

// sendable returns how many rows of chunks could be put into batches.
func (s *Sequence) sendable() int {
	n := s.prompt
	if s.Scored() {
		n = min(n, s.taken+s.Window)
	}
	return max(0, n-s.sent)
}

// stalled says whether nothing happens to an admitted s before its caller acts.
func (s *Sequence) stalled() bool {
	return s.flying == 0 && (s.due || s.Scored() && s.prefilling() && s.sendable() == 0)
}

// outputs returns how many of the next n rows need an output row: the last ones.
func (s *Sequence) outputs(n int) int {
	to := s.sent + n
	if s.Scored() {
		return max(0, to-max(s.sent, s.scores))
	}
	if to == len(s.Tokens) {
		return 1
	}
	return 0
}

// room returns how many tokens its pages hold.
func (s *Sequence) room() int { return len(s.table) * kernels.PageTokens }

// missing returns how many pages it needs for the tokens that it has.
func (s *Sequence) missing() int { return pagesFor(len(s.Tokens)) - len(s.table) }
