package generate

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

// Sampling says how a token is drawn from the model's logits; see package sampling.
// The zero value always takes the most likely token.
type Sampling = sampling.Params

// DefaultSampling returns the sampling that the leat command uses by default, except that
// the seed is 0.
func DefaultSampling() Sampling {
	return Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1}
}

// Sampler draws the tokens of one request in place of Sampling. It runs on the goroutine
// that receives the request's tokens: if it takes long, blocks or panics, it delays or ends
// its own request alone. It may call the engine; only Shutdown would wait for the sampler's
// own request. Its arguments are copies, so that a sampler that writes to them doesn't
// change the results of other requests.
type Sampler = sampling.Sampler

// TokenLogProb is a token with the natural logarithm of its probability.
type TokenLogProb = sampling.TokenLogProb

// Request is a text to continue.
type Request struct {
	// Prompt is the text to continue. The tokenizer adds the tokens that the model
	// wants before a text. Alternatively Tokens, if it is not nil, are exactly the
	// tokens to continue; Prompt must be empty then.
	Prompt string
	Tokens []int32

	MaxTokens int      // how many tokens to add at most; 0: as many as the context holds
	Stop      []string // texts that end the continuation, and aren't part of it
	IgnoreEnd bool     // go on past tokens that end a text, for measurements

	// LogProbs asks for the log-probability of each token, TopLogProbs for so many of
	// the most likely tokens with theirs, at each token; see Token.
	LogProbs    bool
	TopLogProbs int

	Priority int // requests of a higher priority run first; among equal ones, the earlier first

	// Sampling says how tokens are drawn. A request with a Sampler of its own has no
	// Sampling: it is the zero value then. A Sampler draws the tokens of one request.
	Sampling
	Sampler Sampler
}

// Limits of a request.
const (
	MaxStops       = 1024     // stop texts
	MaxStopBytes   = 64 << 10 // of all stop texts together
	MaxTopLogProbs = 128      // alternatives at each token
)

// Check returns an error that wraps [ErrRequest] if the request is invalid for every model.
// An engine calls it for each request. It also returns errors for what its own model
// doesn't allow: tokens that are not in the vocabulary, and prompts longer than the context.
func (r Request) Check() error {
	if err := r.check(); err != nil {
		return requestError{err}
	}
	return nil
}

func (r *Request) check() error {
	switch {
	case r.Tokens != nil && r.Prompt != "":
		return errors.New("a request with Prompt and Tokens: it may have one of them")
	case r.MaxTokens < 0:
		return fmt.Errorf("%d tokens to add: it may not be negative", r.MaxTokens)
	case r.TopLogProbs < 0 || r.TopLogProbs > MaxTopLogProbs:
		return fmt.Errorf("the %d most likely tokens: there may be from 0 to %d", r.TopLogProbs, MaxTopLogProbs)
	case r.Sampler != nil && !reflect.ValueOf(r.Sampling).IsZero():
		return errors.New("a request with Sampling and a Sampler: the Sampler draws the tokens, so that Sampling has no effect")
	case len(r.Stop) > MaxStops:
		return fmt.Errorf("%d stop texts: a request may have up to %d", len(r.Stop), MaxStops)
	}
	bytes := 0
	for i, stop := range r.Stop {
		bytes += len(stop)
		switch {
		case stop == "":
			return errors.New("an empty stop text would stop at once: leave it out")
		case bytes > MaxStopBytes:
			return fmt.Errorf("stop texts of more than %d bytes together", MaxStopBytes)
		case !utf8.ValidString(stop):
			return fmt.Errorf("stop text %d is not valid UTF-8, and would never come", i)
		}
	}
	return r.Sampling.Check()
}

// Finish says why a continuation ended.
type Finish string

// The ways to end.
const (
	Stop      Finish = "stop"      // the model ended the text, or a stop text came
	Length    Finish = "length"    // MaxTokens, or the end of the context, was reached
	Cancelled Finish = "cancelled" // the caller's context ended
	Failed    Finish = "error"     // the error says what happened
)

// Token is one step of a continuation.
type Token struct {
	ID int32 // -1 in the last step, which has a Finish and no new token

	// Text is what can be shown now. It may be empty, and it may contain what earlier
	// tokens began; it always consists of whole characters.
	Text string

	Finish Finish // why the continuation ended; "" in all steps but the last

	// LogProb is the natural logarithm of the token's probability by the model's own
	// logits, before Sampling changes them. Top are the most likely tokens at this
	// place, the most likely one first, by the same logits. The request asks for them
	// with LogProbs and TopLogProbs. The slice is the caller's.
	LogProb float64
	Top     []TokenLogProb

	At time.Time // when the token was made, which may be earlier than it is yielded
}

// Result is a whole continuation.
type Result struct {
	Text   string  // without the prompt
	Prompt []int32 // the prompt's tokens: those of the request, if it has Tokens
	Tokens []int32 // the tokens added, without one that ended the text
	Finish Finish
}

var (
	// ErrRequest is wrapped by errors that are the caller's mistake: the same engine would
	// refuse the same request again.
	ErrRequest = errors.New("invalid request")

	// ErrTooLong is wrapped by the error of a request that is longer than the engine's
	// context. It wraps ErrRequest.
	ErrTooLong error = requestError{errors.New("input is longer than the context")}

	// ErrBusy is returned for a request that would have to wait while the backlog is full;
	// see pipeline.WithBacklog.
	ErrBusy = pipeline.ErrBusy

	// ErrClosed is returned for requests of an engine that has been closed or shut down.
	ErrClosed = pipeline.ErrClosed
)

// requestError is an error that wraps ErrRequest without repeating its text.
type requestError struct{ error }

func (e requestError) Is(target error) bool { return target == ErrRequest }
func (e requestError) Unwrap() error        { return e.error }

// refusef returns an error that wraps ErrRequest.
func refusef(format string, args ...any) error { return requestError{fmt.Errorf(format, args...)} }

// tooLong returns an error that wraps ErrTooLong.
func tooLong(atLeast string, tokens, context int) error {
	return fmt.Errorf("%w: %s%d tokens, the context holds %d: shorten it, or open the engine with a longer context", ErrTooLong, atLeast, tokens, context)
}
