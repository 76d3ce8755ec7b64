package generate

import (
	"slices"
	"time"

	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/pipeline/generate/text"
)

// request is a Request on its way: what the scheduler knows of it, and what the engine
// needs to draw its tokens and to hand them over. The engine's mutex guards it, except
// where a comment says otherwise.
type request struct {
	schedule.Sequence
	prompt  int      // how many of Tokens are the prompt's
	scores  int      // of a scored one: how many rows of logits have been handed over
	ended   bool     // nothing more is handed over
	blocked bool     // it is among the engine's blocked ones
	held    *outcome // a token that was drawn and waits for room in the outbox; nil: none

	// Whoever draws the request's next token uses these, which is one goroutine at a
	// time: the next batch with an output row of it is filled only then.
	sampler   Sampler           // the caller's own; nil: chooser
	chooser   *sampling.Chooser // draws by the request's Sampling
	greedy    bool              // the most likely token is taken, whatever the logits
	ignoreEnd bool
	logProbs  bool
	top       int       // how many of the most likely tokens a token comes with
	logits    []float32 // of the token that the caller's own sampler is to draw
	lent      lent
	writer    *text.Writer

	moments moments
	outbox  outbox // has a lock of its own
}

// lent is memory that a caller's sampler is lent: copies, so that it can change the
// results of its own request alone.
type lent struct {
	logits []float32
	tokens []int32
}

// mostScores is how many rows of logits may wait for a request's caller: they are
// large.
const mostScores = 64

// mostSteps is how many tokens may wait for a request's caller. A text of the usual
// length is written to its end however slowly its caller takes it. A request that has
// to wait may be displaced by others and be computed again, and has this many tokens
// more each time.
const mostSteps = 1024

// stalledGrace is how long a request that waits for its caller keeps its pages while
// others wait for them.
const stalledGrace = 100 * time.Millisecond

// request checks a request and makes it ready to run. It runs on the caller's goroutine,
// without the engine's lock: what a request costs that is large, or has many stop texts
// or biases, is its caller's time.
func (e *Engine) request(r Request) (*request, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	tokens := r.Tokens
	if tokens == nil {
		var err error
		if tokens, err = e.Tokens(r.Prompt); err != nil {
			return nil, err
		}
	}
	n := len(tokens)
	if n == 0 {
		return nil, refusef("the prompt is empty and the model adds no token of its own: give it some text")
	}
	if n > e.plan.Context {
		return nil, tooLong("", n, e.plan.Context)
	}
	for _, t := range tokens {
		if t < 0 || int(t) >= e.vocab {
			return nil, refusef("token %d: the model has tokens 0 to %d", t, e.vocab-1)
		}
	}
	for id := range r.Bias {
		if int(id) >= e.vocab {
			return nil, refusef("a bias for token %d: the model has tokens 0 to %d", id, e.vocab-1)
		}
	}
	most := e.plan.Context
	if r.MaxTokens > 0 {
		most = n + min(r.MaxTokens, most-n)
	}
	own := &request{
		Sequence:  schedule.Sequence{Tokens: slices.Clone(tokens), Most: most, Priority: r.Priority},
		prompt:    n,
		sampler:   r.Sampler,
		greedy:    r.Sampler == nil && r.Sampling.Greedy(),
		logProbs:  r.LogProbs || r.TopLogProbs > 0,
		top:       r.TopLogProbs,
		ignoreEnd: r.IgnoreEnd,
		writer:    text.NewWriter(tokenizer.Continue(e.tokenizer), r.Stop),
		outbox:    newOutbox(),
	}
	if r.Sampler == nil {
		var err error
		if own.chooser, err = sampling.NewChooser(r.Sampling); err != nil {
			return nil, requestError{err}
		}
	}
	own.Owner, own.Want = own, e.want(own)
	return own, nil
}

// leastReduced is how many times as many logits a row must have as are wanted of it, so
// that it is worth to select these on the device.
const leastReduced = 32

// mostTop is how many of a row's largest logits are ever asked for.
func mostTop(vocab int) int { return min(sampling.MaxTop, vocab/leastReduced) }

// want says how much of a row of logits is needed to draw a token.
func (e *Engine) want(r *request) schedule.Want {
	switch {
	case r.sampler != nil || r.logProbs:
		return schedule.All
	case r.greedy:
		return schedule.Best
	}
	if k, ok := r.chooser.KeepAlways(); ok && k <= mostTop(e.vocab) {
		return schedule.Largest(k)
	}
	return schedule.All
}
