package generate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leat-dev/leat/stage"
)

// submitted is a batch that the sender has sent, or couldn't.
type submitted struct {
	batch *stage.Batch
	err   error
}

// sender waits in place of the engine where the way into the pipeline is full:
// meanwhile tokens are handed out and requests are cancelled.
func (e *Engine) sender() {
	for b := range e.outgoing {
		e.sent <- submitted{b, e.pipeline.Submit(context.Background(), b)} // has room: one at a time
	}
}

// send fills free batches while there are rows for them, and while one can be
// sent: until then its rows may yet change.
func (e *Engine) send() {
	if e.sending {
		return
	}
	for idle := 0; idle < 2*len(e.schedule.lanes); {
		l, waits := e.schedule.next(e.plan.config.maxWait > 0 && !e.waited)
		if l == nil {
			if waits && e.held == nil {
				e.held = time.After(e.plan.config.maxWait)
			}
			return
		}
		select {
		case b := <-e.pipeline.Free():
			e.pipeline.Begin(b)
			f, ok := b.Tag.(*flight)
			if !ok {
				f = new(flight)
				b.Tag = f
			}
			if f.fill(l, b) == 0 {
				e.pipeline.Release(b) // those who could go wait for pages
				idle++
				continue
			}
			if l.probe != nil {
				e.pipeline.Probe(b, l.route)
			}
			idle = 0
			e.held, e.waited = nil, false
			e.measures.sent(f)
			l.flights++
			if !e.pipeline.Room(b.Route) {
				e.sending = true
				e.outgoing <- b // has room: nothing else is being sent
				return
			}
			if err := e.pipeline.Submit(context.Background(), b); err != nil {
				e.receive(b, err)
			}
		default:
			return
		}
	}
}

// receive deals with a batch that came out of the pipeline, or that failed with
// err.
func (e *Engine) receive(b *stage.Batch, err error) {
	e.pipeline.Begin(b)
	f := b.Tag.(*flight)
	l := f.lane
	l.flights--
	if err == nil {
		e.results(b, f)
	} else {
		e.failures(f, err)
	}
	e.examine(l)
	e.schedule.admit()
	e.pipeline.Release(b)
}

// results hands a batch's rows of logits to their sequences, or what the device
// has chosen from each.
func (e *Engine) results(b *stage.Batch, f *flight) {
	l := f.lane
	for i := range e.plan.Stages {
		l.pace.observe(i, len(b.Header.Tokens), b.Took(i))
	}
	values, chosen, row := b.Values(), b.Chosen(), 0
	for _, p := range f.parts {
		l.done(p.seq, p.to)
		for range p.outputs {
			switch {
			case p.seq.ended || p.seq.spoiled:
			case chosen != nil:
				id, err := e.likeliest(p.seq, chosen[row])
				e.chosen(p.seq, id, nil, err)
			default:
				e.result(p.seq, values[row*e.vocab:][:e.vocab])
			}
			row++
		}
		l.landed(p.seq)
	}
}

// failures deals with a batch that failed. Where there are lanes on which its
// sequences haven't failed yet, they are computed again there; else they end with
// the error.
func (e *Engine) failures(f *flight, err error) {
	l := f.lane
	for _, p := range f.parts {
		e.spoil(l, p.seq, err)
		l.landed(p.seq)
	}
}

// examine brings a lane up to what the line says of its route: whether it takes
// sequences, and whether a row of nobody's is to be sent there, alone.
func (e *Engine) examine(l *lane) {
	err := e.pipeline.RouteErr(l.route)
	if l.probe != nil && l.probe.ended {
		l.probe = nil
	}
	if err != nil && l.down == nil {
		l.down = err
		for _, s := range slices.Clone(l.running) {
			e.spoil(l, s, err)
		}
		if err := e.schedule.failed(); err != nil {
			e.fail(err)
		}
	}
	if err == nil {
		l.down = nil
	}
	if l.probe == nil && e.pipeline.Due(l.route) {
		l.try()
	}
}

// spoil ends a sequence on a lane with an error, or has it moved to another.
func (e *Engine) spoil(l *lane, s *sequence, err error) {
	switch {
	case s.ended || s.spoiled:
	case s != l.probe && e.schedule.untried(s, l):
		e.schedule.moved++
		s.avoid, s.spoiled = append(s.avoid, l), true
		if !s.yielding {
			l.yield(s)
		}
	default:
		e.end(s, Failed, err)
	}
}

// result deals with one row of logits.
func (e *Engine) result(s *sequence, logits []float32) {
	if s.scored {
		s.outbox.put(step{logits: slices.Clone(logits)})
		if s.scores++; s.scores == s.prompt {
			e.end(s, Length, nil)
		}
		return
	}
	id, err := e.choose(s, logits)
	e.chosen(s, id, logits, err)
}

// chosen deals with the token that was chosen for a sequence, by the logits or,
// where they are nil, on the device.
func (e *Engine) chosen(s *sequence, id int32, logits []float32, err error) {
	switch {
	case err != nil:
		e.end(s, Failed, err)
	case e.tokenizer.IsEnd(id) && !s.ignoreEnd:
		e.end(s, Stop, nil)
	default:
		s.tokens = append(s.tokens, id)
		text, stopped := s.writer.Add(id)
		t := Token{ID: id, Text: text}
		if s.logProbs && argMax(logits) >= 0 { // a sampler may have changed them
			t.LogProb = logProb(logits, id)
		}
		e.measures.wrote(s, s.outbox.put(step{Token: t}))
		if stopped {
			e.end(s, Stop, nil)
		} else if len(s.tokens) >= s.most {
			e.end(s, Length, nil)
		} else {
			s.lane.again(s)
		}
	}
}

// choose asks a sequence's sampler, which may be the caller's own: what it gets
// wrong ends its request alone.
func (e *Engine) choose(s *sequence, logits []float32) (id int32, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the sampler panicked: %v", value)
		}
	}()
	id, err = e.likeliest(s, argMax(logits))
	if err != nil || s.greedy {
		return id, err
	}
	id, err = s.sampler.Sample(logits, s.tokens)
	if err == nil && (id < 0 || int(id) >= e.vocab) {
		err = fmt.Errorf("the sampler chose token %d: the model has tokens 0 to %d", id, e.vocab-1)
	}
	return id, err
}

// likeliest is a sequence's most likely token, -1 where none is.
func (e *Engine) likeliest(s *sequence, id int32) (int32, error) {
	if id < 0 {
		return 0, fmt.Errorf("no logit of token %d is a number", len(s.tokens))
	}
	return id, nil
}

// end ends a request: with the last of its text, or with its error.
func (e *Engine) end(s *sequence, finish Finish, err error) {
	delete(e.live, s)
	e.measures.ended(s, finish)
	e.schedule.leave(s)
	if err == nil {
		last := Token{ID: -1, Finish: finish}
		if !s.scored {
			last.Text = s.writer.End()
		}
		s.outbox.put(step{Token: last})
	} else if finish == Failed {
		err = fmt.Errorf("request failed after %d tokens: %w", len(s.tokens)-s.prompt, err)
	}
	s.outbox.close(err)
}
