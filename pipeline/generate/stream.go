package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/leat-dev/leat/model/tokenizer"
	showable "github.com/leat-dev/leat/pipeline/generate/text"
)

// Stream continues a request's prompt, step by step as it is written. The last
// step has a Finish. An error is the last thing yielded: a request that can't
// be taken (ErrTooLong), ctx's end, a failure in a stage (*stage.Error), or
// ErrClosed. Breaking off the loop cancels the request.
//
// It blocks while the engine's backlog is full.
func (e *Engine) Stream(ctx context.Context, r Request) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		s, err := e.sequence(r)
		if err != nil {
			yield(failed(err), err)
			return
		}
		if s.most == s.prompt { // the context is full
			yield(Token{ID: -1, Finish: Length}, nil)
			return
		}
		for step, err := range e.steps(ctx, s) {
			if err != nil {
				yield(failed(err), err)
				return
			}
			if !yield(step.Token, nil) {
				return
			}
		}
	}
}

func failed(err error) Token {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Token{ID: -1, Finish: Cancelled}
	}
	return Token{ID: -1, Finish: Failed}
}

// Generate continues a request's prompt to its end. With an error it returns
// what was written until then.
func (e *Engine) Generate(ctx context.Context, r Request) (Result, error) {
	result := Result{Prompt: r.Tokens, Finish: Failed}
	if r.Tokens == nil {
		tokens, err := e.Tokens(r.Prompt)
		if err != nil {
			return result, err
		}
		r.Tokens, result.Prompt = tokens, tokens
	}
	var text strings.Builder
	for t, err := range e.Stream(ctx, r) {
		text.WriteString(t.Text)
		result.Text, result.Finish = text.String(), t.Finish
		if err != nil {
			return result, err
		}
		if t.ID >= 0 {
			result.Tokens = append(result.Tokens, t.ID)
		}
	}
	return result, nil
}

// Logits yields the model's logits at each position of tokens, in order, each a
// slice of the vocabulary's size that is the caller's.
func (e *Engine) Logits(ctx context.Context, tokens []int32) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		s, err := e.sequence(Request{Tokens: append([]int32{}, tokens...)})
		if err != nil {
			yield(nil, err)
			return
		}
		s.scored, s.greedy, s.most = true, false, s.prompt
		for step, err := range e.steps(ctx, s) {
			if err != nil {
				yield(nil, err)
				return
			}
			if step.logits != nil && !yield(step.logits, nil) {
				return
			}
		}
	}
}

// Tokens returns a prompt's tokens, as a request has them. Text that is longer
// than the context in any case is ErrTooLong before it is read.
func (e *Engine) Tokens(prompt string) ([]int32, error) {
	if least := e.tokenizer.Least(prompt); least > e.plan.Context {
		return nil, fmt.Errorf("%w: at least %d tokens, the context holds %d: shorten it or raise the context (--ctx)", ErrTooLong, least, e.plan.Context)
	}
	return e.tokenizer.Prompt(tokenizer.WithControl(prompt)), nil
}

// sequence checks a request and makes it ready to run.
func (e *Engine) sequence(r Request) (*sequence, error) {
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
	chooser := r.Sampler
	if chooser == nil {
		chooser = &sampler{Sampling: r.Sampling}
	}
	return &sequence{
		tokens:    tokens,
		prompt:    n,
		most:      most,
		priority:  r.Priority,
		sampler:   chooser,
		greedy:    r.Sampler == nil && r.Sampling.greedy() && !r.LogProbs,
		logProbs:  r.LogProbs,
		ignoreEnd: r.IgnoreEnd,
		writer:    showable.NewWriter(tokenizer.Continue(e.tokenizer), r.Stop),
		outbox:    outbox{signal: make(chan struct{}, 1)},
	}, nil
}

// steps runs a sequence and yields its steps, and as the last thing its error.
func (e *Engine) steps(ctx context.Context, s *sequence) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		s.moments.asked = time.Now()
		select {
		case e.arrivals <- s:
		case <-e.draining:
			yield(step{}, ErrClosed)
			return
		case <-ctx.Done():
			yield(step{}, ctx.Err())
			return
		}
		defer e.cancel(s) // does nothing to a sequence that has ended
		defer context.AfterFunc(ctx, func() { e.cancel(s) })()
		var steps []step
		for more := true; more; {
			var err error
			steps, more, err = s.outbox.take(ctx, steps[:0])
			for _, t := range steps {
				if ctx.Err() != nil {
					yield(step{}, ctx.Err())
					return
				}
				if s.scored {
					s.taken.Add(1)
					e.poke()
				}
				if !yield(t, nil) {
					return
				}
			}
			if err != nil {
				yield(step{}, err)
				return
			}
		}
	}
}

// cancel has the engine end the sequence, if it still runs.
func (e *Engine) cancel(s *sequence) {
	s.cancelled.Store(true)
	e.poke()
}

// poke has the engine look at its sequences again.
func (e *Engine) poke() {
	select {
	case e.pokes <- struct{}{}:
	default:
	}
}
