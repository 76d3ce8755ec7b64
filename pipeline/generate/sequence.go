package generate

import (
	"sync/atomic"

	"github.com/leat-dev/leat/kernels"
	showable "github.com/leat-dev/leat/pipeline/generate/text"
)

// sequence is a request on its way. All but its outbox and the marks that other
// goroutines set belongs to the engine's goroutine.
type sequence struct {
	arrival  uint64 // who came first has the lower one
	priority int
	tokens   []int32 // the prompt and what was added
	prompt   int     // how many of them are the prompt's
	most     int     // how many there may be

	// Where its keys and values are.
	lane     *lane    // nil while it waits
	avoid    []*lane  // that have failed it
	path     []*block // shared blocks, from position 0
	own      []int32  // the pages after them
	table    []int32  // the numbers of all
	unshared bool     // another sequence has shared the same tokens: its own pages stay so

	// How far it is. sent ≥ computed; both begin again when it yields.
	fill     int  // how many tokens there were when it was admitted: these come in chunks
	sent     int  // how many have been put into batches
	computed int  // how many of them have come back
	granted  int  // how many tokens of it the batch that is filled has room for
	flying   int  // in how many batches it is
	yielding bool // gives up its pages when it has come back
	spoiled  bool // a batch of it failed: what still comes back isn't to be used
	ended    bool

	sampler   Sampler
	greedy    bool // it takes the most likely token and asks for nothing else of the logits: sampler isn't asked
	ignoreEnd bool
	logProbs  bool
	writer    *showable.Writer

	scored bool         // no tokens are added: the caller wants the logits of each
	scores int          // how many logits have been handed over
	taken  atomic.Int64 // how many of them its caller has taken

	moments   moments
	cancelled atomic.Bool
	outbox    outbox
}

// mostScores is how many rows of logits may wait for a sequence's caller: they
// are large.
const mostScores = 64

// pending is how many tokens could be put into batches.
func (s *sequence) pending() int {
	n := len(s.tokens) - s.sent
	if s.scored {
		n = min(n, mostScores-(s.sent-int(s.taken.Load())))
	}
	return n
}

// prefilling says that it isn't one token a batch yet.
func (s *sequence) prefilling() bool { return s.sent < s.fill }

// wants says whether the logits of a token are wanted.
func (s *sequence) wants(i int) bool {
	if s.scored {
		return i >= s.scores
	}
	return i == len(s.tokens)-1
}

// room is how many tokens its pages hold.
func (s *sequence) room() int { return len(s.table) * kernels.PageTokens }

// before says whether s goes before other: by priority, then by arrival.
func (s *sequence) before(other *sequence) bool {
	if s.priority != other.priority {
		return s.priority > other.priority
	}
	return s.arrival < other.arrival
}
