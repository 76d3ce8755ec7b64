package generate_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// stagesRounds is how many interleaved runs of each placement BenchmarkStages
// takes the median of.
const stagesRounds = 15

// BenchmarkStages compares two stages of one core each with one stage of one core,
// on a model whose layers take a few microseconds, so that what is measured is the
// way of a batch around the stages. The baseline is the better of one and two batches
// in flight. All placements run in turns; each figure is the median of 15 runs.
//
// The metrics are the speeds in tokens a second, their ratio, and as "bound" what
// the stages' own times allow: t(N), the time of a batch of all N rows in one stage,
// divided by the time that the slower stage needs for two batches of N/2 rows. One
// sequence can't be divided: its bound is 1.
//
//	go test -run xx -bench BenchmarkStages ./pipeline/generate
func BenchmarkStages(b *testing.B) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		b.Fatal(err)
	}
	for _, temperature := range []float64{0, 0.8} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("temp=%v/at=%d", temperature, n), func(b *testing.B) {
				runs := []*placement{
					{devices: "cpu:0", inflight: 1},
					{devices: "cpu:0", inflight: 2},
					{devices: "cpu/2"},
				}
				for _, r := range runs {
					r.open(b, m)
				}
				for b.Loop() {
					for round := range stagesRounds + 1 {
						for _, r := range runs {
							speed := r.run(b, n, temperature)
							if round > 0 { // the first is for the caches
								r.speeds = append(r.speeds, speed)
							}
						}
					}
				}
				whole, half, two := runs[0], runs[1], runs[2]
				base := max(whole.median(), half.median())
				b.ReportMetric(whole.median(), "one-stage-1/s")
				b.ReportMetric(half.median(), "one-stage-2/s")
				b.ReportMetric(two.median(), "two-stages/s")
				b.ReportMetric(two.median()/base, "ratio")
				bound := 1.0
				if n > 1 {
					bound = whole.batch() / (2 * half.batch() * two.share())
				}
				b.ReportMetric(bound, "bound")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// placement is one way to place the model, with an engine.
type placement struct {
	devices  string
	inflight int // 0: the default
	engine   *generate.Engine
	speeds   []float64 // tokens a second, one for each run
}

func (p *placement) open(b *testing.B, m *model.Model) {
	more := []generate.Option{on(p.devices)}
	if p.inflight > 0 {
		more = append(more, pipeline.WithInFlight(p.inflight))
	}
	var err error
	if p.engine, err = generate.New(b.Context(), m, more...); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.engine.Close() })
}

// run writes n stories of 100 tokens some times over and returns the tokens a second.
func (p *placement) run(b *testing.B, n int, temperature float64) float64 {
	const tokens, least = 100, 60 * time.Millisecond
	begun, written := time.Now(), 0
	for time.Since(begun) < least {
		var wait sync.WaitGroup
		for i := range n {
			wait.Go(func() {
				for range p.engine.Stream(b.Context(), generate.Request{
					Prompt: openings[i%len(openings)], MaxTokens: tokens, IgnoreEnd: true,
					Sampling: generate.Sampling{Temperature: temperature, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: uint64(i)},
				}) {
				}
			})
		}
		wait.Wait()
		written += n * tokens
	}
	return float64(written) / time.Since(begun).Seconds()
}

func (p *placement) median() float64 {
	slices.Sort(p.speeds)
	return p.speeds[len(p.speeds)/2]
}

// batch is how long a batch took on average, in all stages together.
func (p *placement) batch() float64 {
	var busy float64
	stats := p.engine.Stats().Stages
	for _, s := range stats {
		busy += s.Busy.Seconds()
	}
	return busy / float64(stats[0].Batches)
}

// share is the slowest stage's part of the time of all.
func (p *placement) share() float64 {
	var sum, slowest float64
	for _, s := range p.engine.Stats().Stages {
		sum += s.Busy.Seconds()
		slowest = max(slowest, s.Busy.Seconds())
	}
	return slowest / sum
}
