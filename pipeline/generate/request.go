package generate

import (
	"errors"
	"fmt"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

// Sampling says how a token is drawn from the model's logits; see package sampling.
type Sampling = sampling.Params

// Sampler draws the tokens of one request in place of Sampling. It runs on the
// goroutine that takes the request's tokens, so one that takes long, or blocks, or
// panics, delays or ends its own request alone, and it may call the engine.
type Sampler = sampling.Sampler

// Request is a text to continue.
type Request struct {
	Prompt    string   // tokenized as the model wants it, with a beginning-of-text token
	Tokens    []int32  // instead of Prompt, if not nil: exactly these tokens
	MaxTokens int      // most tokens to add; 0: as many as the context holds
	Stop      []string // texts that end the continuation; they aren't part of it
	IgnoreEnd bool     // goes on past tokens that end a text, for measurements
	LogProbs  bool     // each Token has its LogProb
	Priority  int      // higher goes first; among equals, who came first
	Sampling
	Sampler Sampler // instead of Sampling, if not nil; for this request alone
}

// Finish says why a continuation ended.
type Finish string

// The ways to end.
const (
	Stop      Finish = "stop"      // the model ended, or a stop text came
	Length    Finish = "length"    // MaxTokens, or the context, was reached
	Cancelled Finish = "cancelled" // the caller's context ended
	Failed    Finish = "error"     // the error says what happened
)

// Token is one step of a continuation. Text is what can be shown now: it may be
// empty, and hold what earlier tokens began; it is always whole characters. The
// last step has a Finish and no new token: its ID is -1.
type Token struct {
	ID     int32
	Text   string
	Finish Finish
	// LogProb is the natural logarithm of the token's probability by the model's
	// own logits, before Sampling changes them; where the request asks for it.
	LogProb float64
	At      time.Time // when it was made; its caller may get it later
}

// Result is a whole continuation.
type Result struct {
	Text   string  // without the prompt
	Prompt []int32 // the prompt's tokens
	Tokens []int32 // the tokens added, without one that ended the text
	Finish Finish
}

// ErrClosed says that the engine has been closed.
var ErrClosed = pipeline.ErrClosed

// ErrTooLong says that a request can't fit the engine's context.
var ErrTooLong = errors.New("input is longer than the context")

func tooLong(tokens, context int) error {
	return fmt.Errorf("%w: %d tokens, the context holds %d: shorten it or raise the context (--ctx)", ErrTooLong, tokens, context)
}
