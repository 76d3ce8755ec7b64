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
