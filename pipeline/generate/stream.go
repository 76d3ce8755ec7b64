package generate

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
)

// Stream continues a request's prompt and yields tokens as they are generated. The last
// [Token] has a Finish and no ID. If the request fails, Stream yields an error last:
//
//   - an error that wraps [ErrRequest] if the request is wrong, [ErrTooLong] among them;
//   - ctx's error when ctx ends, which cancels the request;
//   - [ErrClosed] if the engine was closed or shut down;
//   - an error that wraps a [*stage.Error] if a stage failed;
//   - an error that wraps [pipeline.ErrFailing] while all batches fail.
//
// The request begins when the loop begins. Leaving the loop cancels the request. Stream
// blocks while the engine's backlog is full; see [Engine.TryStream].
//
// A slow loop body delays its own request alone. When about a thousand tokens wait for it,
// the request is paused, and may lose its pages to others meanwhile.
func (e *Engine) Stream(ctx context.Context, r Request) iter.Seq2[Token, error] {
	return e.stream(ctx, r, true)
}

// TryStream is Stream, except that it yields [ErrBusy] at once if the backlog is full.
func (e *Engine) TryStream(ctx context.Context, r Request) iter.Seq2[Token, error] {
	return e.stream(ctx, r, false)
}

func (e *Engine) stream(ctx context.Context, r Request, wait bool) iter.Seq2[Token, error] {
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
		for step, err := range e.steps(ctx, s, wait) {
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

// Generate continues a request's prompt and returns the whole continuation. Its errors are
// those of [Engine.Stream]. Together with an error it returns what was generated before.
func (e *Engine) Generate(ctx context.Context, r Request) (Result, error) {
	return e.generate(ctx, r, true)
}

// TryGenerate is Generate, except that it returns [ErrBusy] at once if the backlog is full.
func (e *Engine) TryGenerate(ctx context.Context, r Request) (Result, error) {
	return e.generate(ctx, r, false)
}

func (e *Engine) generate(ctx context.Context, r Request, wait bool) (Result, error) {
	result := Result{Prompt: r.Tokens, Finish: Failed}
	if r.Tokens == nil {
		tokens, err := e.Tokens(r.Prompt)
		if err != nil {
			return result, err
		}
		r.Prompt, r.Tokens, result.Prompt = "", tokens, tokens
	}
	var text strings.Builder
	for t, err := range e.stream(ctx, r, wait) {
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

// Logits yields the model's logits at each position of tokens, in order: one float32 for
// each token of the vocabulary, in a slice that is the caller's. Its errors are those of
// [Engine.Stream]. A slow loop body doesn't delay other requests. At most 64 rows are
// computed ahead of it.
func (e *Engine) Logits(ctx context.Context, tokens []int32) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		if tokens == nil {
			tokens = []int32{} // not a prompt of text
		}
		s, err := e.request(Request{Tokens: tokens})
		if err != nil {
			yield(nil, err)
			return
		}
		s.Window, s.Want, s.Most = mostScores, schedule.All, s.prompt
		for step, err := range e.steps(ctx, s, true) {
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

// Tokens returns the tokens of a prompt, as in a [Request] with that Prompt. If the text is
// so long that it can't fit the context, Tokens returns an error that wraps [ErrTooLong]
// without tokenizing it.
func (e *Engine) Tokens(prompt string) ([]int32, error) {
	if least := e.tokenizer.Least(prompt); least > e.plan.Context {
		return nil, tooLong("at least ", least, e.plan.Context)
	}
	return e.tokenizer.Prompt(tokenizer.WithControl(prompt)), nil
}

// steps runs a request and yields its steps, and as the last thing its error. On the
// goroutine that takes the steps it has the caller's own sampler draw the tokens, if
// there is one.
//
// If wait is false and the backlog is full, the error is ErrBusy.
func (e *Engine) steps(ctx context.Context, r *request, wait bool) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(step{}, err)
			return
		}
		if err := e.begin(r, wait); err != nil {
			yield(step{}, err)
			return
		}
		defer e.cancel(r) // does nothing to a request that has ended
		defer context.AfterFunc(ctx, func() { e.cancel(r) })()
		var steps []step
		for more := true; more; {
			var err error
			steps, more, err = r.outbox.take(ctx, steps[:0])
			if len(steps) >= mostSteps {
				e.resume(r)
			}
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

// begin hands a request to the scheduler, or has it wait where the backlog is full. If
// it may not wait, that is ErrBusy.
func (e *Engine) begin(r *request, wait bool) error {
	r.moments.asked = time.Now()
	e.mu.Lock()
	defer e.leave()
	if e.refuses {
		return ErrClosed
	}
	if err := e.line.Err(); err != nil {
		e.measures.arrived(r)
		e.end(r, Failed, err)
		return nil
	}
	room := e.blocked.n == 0 && e.schedule.Waiting() < e.plan.config.backlog
	if !room && !wait {
		return ErrBusy
	}
	e.live[r] = struct{}{}
	e.measures.arrived(r)
	if room {
		e.admit(r)
	} else {
		e.blocked.push(r)
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
	defer e.leave()
	if !r.ended {
		e.schedule.Taken(&r.Sequence, 1)
		e.step()
	}
}

// cancel ends a request whose caller wants no more of it.
func (e *Engine) cancel(r *request) {
	e.mu.Lock()
	defer e.leave()
	if !r.ended {
		e.end(r, Cancelled, context.Canceled)
		e.step()
	}
}
