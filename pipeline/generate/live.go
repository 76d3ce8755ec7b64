package generate

import (
	"errors"
	"fmt"
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
	prompt int  // how many of Tokens are the prompt's
	scores int  // of a scored one: how many rows of logits have been handed over
	ended  bool // nothing more is handed over

	// Whoever draws the request's next token uses these, which is one goroutine at a
	// time: the next batch with an output row of it is filled only then.
	sampler   Sampler           // the caller's own; nil: chooser
	chooser   *sampling.Chooser // draws by the request's Sampling
	greedy    bool              // the most likely token is taken, whatever the logits
	ignoreEnd bool
	logProbs  bool
	logits    []float32 // of the token that the caller's own sampler is to draw
	writer    *text.Writer

	moments moments
	outbox  outbox // has a lock of its own
}

// mostScores is how many rows of logits may wait for a request's caller: they are
// large.
const mostScores = 64

// stalledGrace is how long a request that waits for its caller keeps its pages while
// others wait for them.
const stalledGrace = 100 * time.Millisecond

// request checks a request and makes it ready to run.
func (e *Engine) request(r Request) (*request, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if r.MaxTokens < 0 {
		return nil, fmt.Errorf("%d tokens to add: it may not be negative", r.MaxTokens)
	}
	tokens := slices.Clone(r.Tokens)
	if r.Tokens == nil {
		var err error
		if tokens, err = e.Tokens(r.Prompt); err != nil {
			return nil, err
		}
	}
	n := len(tokens)
	if n == 0 {
		return nil, errors.New("the prompt is empty and the model adds no token of its own: give it some text")
	}
	if n > e.plan.Context {
		return nil, tooLong(n, e.plan.Context)
	}
	for _, t := range tokens {
		if t < 0 || int(t) >= e.vocab {
			return nil, fmt.Errorf("token %d: the model has tokens 0 to %d", t, e.vocab-1)
		}
	}
	for id := range r.Bias {
		if int(id) >= e.vocab {
			return nil, fmt.Errorf("a bias for token %d: the model has tokens 0 to %d", id, e.vocab-1)
		}
	}
	for _, stop := range r.Stop {
		if stop == "" {
			return nil, errors.New("an empty stop text would stop at once: leave it out")
		}
	}
	most := e.plan.Context
	if r.MaxTokens > 0 {
		most = n + min(r.MaxTokens, most-n)
	}
	own := &request{
		Sequence:  schedule.Sequence{Tokens: tokens, Most: most, Priority: r.Priority},
		prompt:    n,
		sampler:   r.Sampler,
		greedy:    r.Sampler == nil && r.Sampling.Greedy(),
		logProbs:  r.LogProbs,
		ignoreEnd: r.IgnoreEnd,
		writer:    text.NewWriter(tokenizer.Continue(e.tokenizer), r.Stop),
		outbox:    newOutbox(),
	}
	if r.Sampler == nil {
		var err error
		if own.chooser, err = sampling.NewChooser(r.Sampling); err != nil {
			return nil, err
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
