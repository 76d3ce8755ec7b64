package generate_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
)

// BenchmarkStories writes stories with the small model, whose layers take a few
// microseconds: what it measures is the way of a token around them.
func BenchmarkStories(b *testing.B) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		b.Fatal(err)
	}
	for _, devices := range []string{"cpu:0", "cpu", "cpu/2"} {
		for _, at := range []int{1, 8, 64} {
			for _, temperature := range []float64{0, 0.8} {
				b.Run(fmt.Sprintf("%s/at=%d/temp=%v", devices, at, temperature), func(b *testing.B) {
					e, err := generate.New(b.Context(), m, on(devices))
					if err != nil {
						b.Fatal(err)
					}
					defer e.Close()
					b.ReportAllocs()
					tokens := 0
					for b.Loop() {
						var wait sync.WaitGroup
						for i := range at {
							wait.Go(func() {
								for range e.Stream(b.Context(), generate.Request{
									Prompt: openings[i%len(openings)], MaxTokens: 100, IgnoreEnd: true,
									Sampling: generate.Sampling{Temperature: temperature, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: uint64(i)},
								}) {
								}
							})
						}
						wait.Wait()
						tokens += at * 100
					}
					b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
				})
			}
		}
	}
}

// BenchmarkMixed is 64 prompts of 2 to 60 tokens, continued by 10 to 68, through
// one stage on one core and through two on one core each. What the cut of the
// layers allows two stages is in "allowed": the sum of the stages' times divided
// by the slowest's.
func BenchmarkMixed(b *testing.B) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		b.Fatal(err)
	}
	var requests []generate.Request
	total := 0
	for i := range 64 {
		tokens := []int32{1}
		for j := range 1 + i*37%59 {
			tokens = append(tokens, int32(259+(i*131+j*17)%250))
		}
		more := 10 + i*29%59
		total += more
		requests = append(requests, generate.Request{Tokens: tokens, MaxTokens: more, IgnoreEnd: true})
	}
	for _, devices := range []string{"cpu:0", "cpu/2"} {
		b.Run(devices, func(b *testing.B) {
			e, err := generate.New(b.Context(), m, on(devices))
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			rounds := 0
			for b.Loop() {
				var wait sync.WaitGroup
				for _, r := range requests {
					wait.Go(func() {
						for range e.Stream(b.Context(), r) {
						}
					})
				}
				wait.Wait()
				rounds++
			}
			var sum, slowest float64
			for _, s := range e.Stats().Stages {
				sum += s.Busy.Seconds()
				slowest = max(slowest, s.Busy.Seconds())
			}
			b.ReportMetric(float64(total*rounds)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(sum/slowest, "allowed")
		})
	}
}
