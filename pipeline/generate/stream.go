package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
)

// Stream continues a request's prompt, step by step as it is written. The last
// step has a Finish. An error is the last thing yielded: a request that can't
// be taken (ErrTooLong), ctx's end, a failure in a stage (*stage.Error), or
// ErrClosed. Breaking off the loop cancels the request.
//
// It blocks while the engine's backlog is full.
func (e *Engine) Stream(ctx context.Context, r Request) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		s, err := e.request(r)
		if err != nil {
			yield(failed(err), err)
			return
		}
		if s.Most == s.prompt { // the context is full
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
		s, err := e.request(Request{Tokens: append([]int32{}, tokens...)})
		if err != nil {
			yield(nil, err)
			return
		}
		s.Window, s.Want, s.Most = mostScores, schedule.All, s.prompt
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

// steps runs a request and yields its steps, and as the last thing its error. On the
// goroutine that takes the steps it has the caller's own sampler draw the tokens, if
// there is one.
func (e *Engine) steps(ctx context.Context, r *request) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(step{}, err)
			return
		}
		if err := e.begin(r); err != nil {
			yield(step{}, err)
			return
		}
		defer e.cancel(r) // does nothing to a request that has ended
		defer context.AfterFunc(ctx, func() { e.cancel(r) })()
		var steps []step
		for more := true; more; {
			var err error
			steps, more, err = r.outbox.take(ctx, steps[:0])
			for _, s := range steps {
				switch {
				case ctx.Err() != nil:
					yield(step{}, ctx.Err())
					return
				case s.ask:
					e.ask(r)
					continue
				case r.Scored() && s.logits != nil:
					e.taken(r)
				}
				if !yield(s, nil) {
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

// begin hands a request to the scheduler, or has it wait where the backlog is full.
func (e *Engine) begin(r *request) error {
	r.moments.asked = time.Now()
	e.mu.Lock()
	defer e.unlock()
	if e.drained {
		return ErrClosed
	}
	e.live[r] = struct{}{}
	e.measures.arrived(r)
	if err := e.line.Err(); err != nil {
		e.end(r, Failed, err)
		return nil
	}
	if len(e.blocked) == 0 && e.schedule.Waiting() < e.plan.config.backlog {
		e.admit(r)
	} else {
		e.blocked = append(e.blocked, r)
	}
	e.step()
	return nil
}

// admit hands a request to the scheduler. The engine is locked.
func (e *Engine) admit(r *request) {
	if err := e.schedule.Add(&r.Sequence); err != nil {
		e.end(r, Failed, err)
	}
}

// taken says that the caller has taken a row of logits.
func (e *Engine) taken(r *request) {
	e.mu.Lock()
	if !r.ended {
		e.schedule.Taken(&r.Sequence, 1)
		e.step()
	}
	e.unlock()
}

// cancel ends a request whose caller wants no more of it.
func (e *Engine) cancel(r *request) {
	e.mu.Lock()
	if !r.ended {
		e.end(r, Cancelled, context.Canceled)
		e.step()
	}
	e.unlock()
}
