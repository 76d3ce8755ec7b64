package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
)

// Where the second GPU is far behind the first, each batch still has its own error, or
// none, and its own values, though buffers and events of both are used again meanwhile.
func TestABatchThatFailsOnAGPUFailsNoOther(t *testing.T) {
	const bad, good, every, batches = 103, 7, 5, 60
	for _, list := range []string{"cuda:0@1,cuda:1@1", "cuda:0@1,cuda:0@1", "cuda:0@1,cuda:1@1,cuda:0@1"} {
		for _, direct := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s direct %v", list, direct), func(t *testing.T) {
				emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: !direct, Fault: "slow:1@1ms"})
				layers := doubling(6)
				for _, l := range layers {
					l.(*stagetest.Layer).Costs.Fixed = 1
				}
				layers[0].(*stagetest.Layer).WorkerPanicToken = bad
				p, err := start(t, layers, pipeline.WithDevices(list), pipeline.WithInFlight(4), pipeline.WithMaxBatch(8), pipeline.WithFailureLimit(batches))
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Close()) }()
				token := func(i int) int32 {
					if i%every == 2 {
						return bad
					}
					return good
				}
				sent := 0
				next := func() {
					send(t, p, token(sent))
					sent++
				}
				for range 4 {
					next()
				}
				for i := range batches {
					b := <-p.Done()
					if token(i) == bad {
						assert.ErrorContains(t, b.Err(), "stage 0 (", "batch %d", i)
					} else if assert.NoError(t, b.Err(), "batch %d", i) {
						assert.Equal(t, doubled(good, 6), b.Values()[0], "batch %d", i)
					}
					p.Release(b)
					if sent < batches {
						next()
					}
				}
			})
		}
	}
}
