package pipeline_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// BenchmarkDo is calls of one row through layers that do next to nothing: what it
// costs to gather rows, to hand them on and to bring results back. Time is that of
// a call, with all callers calling at once.
func BenchmarkDo(b *testing.B) {
	for _, stages := range []int{1, 2, 8} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("stages=%d/callers=%d", stages, callers), func(b *testing.B) {
				var layers []stage.Layer
				for i := range stages {
					layer := &stagetest.Rows{Called: fmt.Sprintf("block %d", i), Width: 1}
					layer.Costs.Fixed = 1
					layers = append(layers, layer)
				}
				p := open(b, layers, pipeline.WithInput(1), pipeline.WithDevices(fmt.Sprintf("cpu/%d", stages)))
				b.ReportAllocs()
				b.ResetTimer()
				var working sync.WaitGroup
				for caller := range callers {
					working.Go(func() {
						x, dst := make([]float32, 1), make([]float32, 1)
						for i := caller; i < b.N; i += callers {
							if err := p.DoInto(b.Context(), dst, x); err != nil {
								b.Error(err)
							}
						}
					})
				}
				working.Wait()
				b.ReportMetric(float64(b.N)/float64(max(1, p.Stats().Batches)), "rows/batch")
			})
		}
	}
}
