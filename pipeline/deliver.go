package pipeline

import "github.com/leat-dev/leat/stage"

// deliver gives what comes out of the line to the callers. It is a goroutine of
// the pipeline, which ends when the line is closed.
func (p *Pipeline) deliver() {
	for b := range p.line.Done() {
		p.land(b, b.Err())
	}
}

// land deals with a batch that came back, and gives it free.
func (p *Pipeline) land(b *stage.Batch, err error) {
	p.line.Begin(b)
	f := b.Tag.(*flight)
	p.turns.back(b.Route, true, err)
	if err != nil {
		p.counts.failures.Add(1)
	}
	if p.health.record(err) {
		p.queue.poke()
	}
	values := b.Values()
	for _, s := range f.parts {
		var own []float32
		if err == nil {
			own, values = values[:s.n*p.out], values[s.n*p.out:]
		}
		s.call.land(own, s.from, s.n, err)
	}
	probe := f.probe
	p.line.Release(b)
	if probe {
		p.probed <- struct{}{}
	}
}
