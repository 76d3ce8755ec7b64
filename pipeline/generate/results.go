package generate

import (
	"fmt"
	"slices"
	"time"

	"github.com/leat-dev/leat/pipeline/generate/sampling"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/stage"
)

// outcome is what a row of results comes to.
type outcome struct {
	step    step
	finish  Finish // the request ends with it, if not empty
	bare    bool   // it ends by a token that is not part of the text
	pending bool   // the caller's own sampler is to draw the token
	err     error
}

// finished deals with a batch that came out of the pipeline, with its results or an
// error. Whoever has the batch in hand calls it; mostly that is the goroutine of the
// last stage.
//
// Tokens are drawn while the engine is not locked. No other goroutine looks at what
// that reads, since the sequences' next batches can't be filled before their tokens
// are known.
func (e *Engine) finished(b *stage.Batch) {
	e.line.Begin(b)
	f := b.Tag.(*flight)
	err := b.Err()
	e.mu.Lock()
	defer e.leave()
	if err != nil {
		for _, s := range e.schedule.Failed(&f.Batch) {
			e.end(s.Owner.(*request), Failed, err)
		}
	} else {
		for i := range f.took {
			f.took[i] = b.Took(i)
		}
		e.schedule.Returned(time.Now(), &f.Batch, f.took)
		if f.wanted() {
			e.mu.Unlock()
			e.draw(b, f)
			e.mu.Lock()
			e.apply(f)
		}
	}
	e.line.Release(b)
	e.step()
}

// wanted reports whether there are rows of results that somebody wants.
func (f *flight) wanted() bool {
	return slices.ContainsFunc(f.Parts, func(p schedule.Part) bool { return p.Outputs > 0 && !p.Dropped })
}

// draw sets the outcomes of a batch's rows of results.
func (e *Engine) draw(b *stage.Batch, f *flight) {
	f.outcomes = f.outcomes[:0]
	row := 0
	for _, p := range f.Parts {
		for range p.Outputs {
			var o outcome
			if !p.Dropped {
				o = e.outcome(p.Seq.Owner.(*request), b, row)
			}
			f.outcomes = append(f.outcomes, o)
			row++
		}
	}
}

// outcome looks at one row of a batch's results.
func (e *Engine) outcome(r *request, b *stage.Batch, row int) outcome {
	var logits []float32
	if values := b.Values(); values != nil {
		logits = values[row*e.vocab:][:e.vocab:e.vocab]
	}
	columns, top := b.Top()
	chosen := b.Chosen()
	if columns != nil {
		k := len(columns) / len(b.Header.Outputs)
		columns, top = columns[row*k:][:k], top[row*k:][:k]
	}
	switch {
	case r.Scored():
		return outcome{step: step{logits: slices.Clone(logits)}}
	case r.sampler != nil:
		r.logits = append(r.logits[:0], logits...)
		return outcome{pending: true}
	case r.greedy && chosen != nil:
		return e.token(r, chosen[row], logits, nil)
	case r.greedy && columns != nil:
		return e.token(r, columns[0], logits, nil)
	case logits == nil:
		id, err := r.chooser.ChooseTop(columns, top, r.Tokens)
		return e.token(r, id, nil, err)
	}
	id, err := r.chooser.Choose(logits, r.Tokens)
	return e.token(r, id, logits, err)
}

// token is the outcome of a token that was drawn. Where the request wants its
// log-probability, logits are the row that it was drawn from.
func (e *Engine) token(r *request, id int32, logits []float32, err error) outcome {
	switch {
	case err != nil:
		return outcome{err: err}
	case id < 0:
		return outcome{err: fmt.Errorf("no logit of token %d is a number", len(r.Tokens))}
	case e.tokenizer.IsEnd(id) && !r.ignoreEnd:
		return outcome{finish: Stop, bare: true}
	}
	text, stopped := r.writer.Add(id)
	o := outcome{step: step{Token: Token{ID: id, Text: text}}}
	if r.logProbs {
		p := sampling.NewLogProbs(logits)
		o.step.LogProb = p.Of(id)
		if r.top > 0 {
			o.step.Top = p.Top(make([]TokenLogProb, 0, r.top), r.top)
		}
	}
	switch {
	case stopped:
		o.finish = Stop
	case len(r.Tokens)+1 >= r.Most:
		o.finish = Length
	}
	return o
}

// apply lets the engine's state know of a batch's outcomes. The engine is locked.
func (e *Engine) apply(f *flight) {
	row := 0
	for _, p := range f.Parts {
		for range p.Outputs {
			if r := p.Seq.Owner.(*request); !p.Dropped && !r.ended {
				e.accept(r, &f.outcomes[row])
			}
			row++
		}
	}
	clear(f.outcomes) // they hold texts and logits
}

// accept lets the engine's state know of an outcome of a request that has not ended.
// The engine is locked.
func (e *Engine) accept(r *request, o *outcome) {
	switch {
	case o.err != nil:
		e.end(r, Failed, o.err)
	case o.pending:
		e.hand(r, step{ask: true})
	case r.Scored():
		e.hand(r, o.step)
		if r.scores++; r.scores == r.prompt {
			e.end(r, Length, nil)
		}
	case o.bare:
		e.end(r, o.finish, nil)
	case o.finish != "":
		e.measures.wrote(r, e.hand(r, o.step))
		e.end(r, o.finish, nil)
	case r.outbox.full():
		// The scheduler doesn't continue the request before it has got the token.
		held := *o
		held.step.At = time.Now()
		r.held = &held
	case e.schedule.Append(&r.Sequence, o.step.ID):
		e.measures.wrote(r, e.hand(r, o.step))
	}
}

// resume continues a request that waited until its caller had taken its tokens.
func (e *Engine) resume(r *request) {
	e.mu.Lock()
	defer e.leave()
	if held := r.held; held != nil && !r.ended {
		r.held = nil
		e.accept(r, held)
		e.step()
	}
}

// hand gives a request's caller a step to take, and returns when that was. The engine
// is locked.
func (e *Engine) hand(r *request, s step) time.Time {
	e.wakes = append(e.wakes, r)
	return r.outbox.put(s)
}

// end ends a request, unless it has ended: with the last of its text, or with its
// error. The engine is locked.
func (e *Engine) end(r *request, finish Finish, err error) {
	if r.ended {
		return
	}
	r.ended, r.held = true, nil
	delete(e.live, r)
	e.blocked.remove(r)
	e.measures.ended(r, finish)
	e.schedule.Remove(&r.Sequence)
	if err == nil {
		last := Token{ID: -1, Finish: finish}
		if !r.Scored() {
			last.Text = r.writer.End()
		}
		r.outbox.put(step{Token: last})
	} else if finish == Failed {
		err = fmt.Errorf("request failed after %d tokens: %w", len(r.Tokens)-r.prompt, err)
	}
	r.outbox.close(err)
	e.wakes = append(e.wakes, r)
	e.settle()
}

// ask has the caller's own sampler draw a request's next token, on the goroutine that
// takes the request's steps. What goes wrong in it ends the request alone.
func (e *Engine) ask(r *request) {
	id, err := r.sample()
	o := e.token(r, id, r.logits, err)
	e.mu.Lock()
	defer e.leave()
	if !r.ended {
		e.accept(r, &o)
		e.step()
	}
}

// sample calls the caller's sampler with copies of the logits and the tokens. The tokens
// are the scheduler's: other requests' pages are found by them.
func (r *request) sample() (id int32, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the sampler panicked: %v", value)
		}
	}()
	if sampling.ArgMax(r.logits) < 0 {
		return -1, nil
	}
	logits := append(r.lent.logits[:0], r.logits...)
	tokens := append(r.lent.tokens, r.Tokens[len(r.lent.tokens):]...)
	r.lent = lent{logits, tokens}
	id, err = r.sampler.Sample(slices.Clip(logits), slices.Clip(tokens))
	if err == nil && (id < 0 || int(id) >= len(logits)) {
		err = fmt.Errorf("the sampler chose token %d: the model has tokens 0 to %d", id, len(logits)-1)
	}
	return id, err
}
