package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// BenchmarkHop is a batch of one row through stages whose layers do next to
// nothing, on devices of one core: what it costs to hand a batch on.
func BenchmarkHop(b *testing.B) {
	for _, stages := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("stages=%d", stages), func(b *testing.B) {
			var layers []stage.Layer
			for i := range stages {
				layer := &stagetest.Layer{Called: fmt.Sprintf("block %d", i), Width: 1}
				layer.Costs.Fixed = 1
				layers = append(layers, layer)
			}
			p, err := start(b, layers, pipeline.WithDevices(fmt.Sprintf("cpu/%d", stages)), pipeline.WithMaxBatch(1))
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				send(b, p, 1)
				p.Release(<-p.Done())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(stages+1), "ns/hop")
		})
	}
}
