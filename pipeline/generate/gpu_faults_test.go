package generate_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

// texts continues the openings, all at once.
func texts(t *testing.T, e *generate.Engine) (results [len(openings4)]generate.Result, errs [len(openings4)]error) {
	var wait sync.WaitGroup
	for i, prompt := range openings4 {
		wait.Go(func() {
			results[i], errs[i] = e.Generate(t.Context(), generate.Request{Prompt: prompt, MaxTokens: 12 + 4*i, IgnoreEnd: true})
		})
	}
	wait.Wait()
	return results, errs
}

var openings4 = [4]string{"Once upon a time", "One day, a boy", "Lily and Tom", "The dog"}

// healthy is what the texts are on a machine without faults.
func healthy(t *testing.T, list string) (results [len(openings4)]generate.Result) {
	t.Run("without a fault", func(t *testing.T) {
		emulator.Use(t, emulator.Machine{GPUs: 2})
		e, err := generate.New(t.Context(), parse(t), on(list))
		require.NoError(t, err)
		var errs [len(openings4)]error
		results, errs = texts(t, e)
		assert.Equal(t, [len(openings4)]error{}, errs)
		require.NoError(t, e.Close())
	})
	return results
}

// A call that fails in the middle of work is the error of the batch, at its stage;
// whoever wasn't in it gets the whole text, and the engine goes on.
func TestACallOfTheDriverFails(t *testing.T) {
	const list = "cuda:0@1,cuda:1@1"
	want := healthy(t, list)
	for _, call := range []struct {
		name, fault string
		stage       int
	}{
		{"cuLaunchKernel", "cuLaunchKernel:40@0=1", 0},
		{"cuLaunchKernel", "cuLaunchKernel:40@1=1", 1},
		{"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync:7@1=1", 1},
		{"cuMemcpyPeerAsync", "cuMemcpyPeerAsync:4=1", 1},
	} {
		t.Run(call.fault, func(t *testing.T) {
			emulator.Use(t, emulator.Machine{GPUs: 2, Fault: call.fault})
			e, err := generate.New(t.Context(), parse(t), on(list), pipeline.WithMaxBatch(8))
			require.NoError(t, err)
			failed := 0
			for range 2 {
				results, errs := texts(t, e)
				for i, err := range errs {
					if err == nil {
						assert.Equal(t, want[i], results[i])
						continue
					}
					failed++
					var at *stage.Error
					require.ErrorAs(t, err, &at)
					where := e.Plan().Stages[call.stage]
					assert.Equal(t, []any{call.stage, where.Layers, where.Device.Name}, []any{at.Stage, at.Layers, at.Device}, "%v", err)
					var of *device.DriverError
					require.ErrorAs(t, err, &of)
					assert.Equal(t, call.name, of.Call)
					assert.NotErrorIs(t, err, device.ErrLost)
					assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_VALUE")
					got := results[i].Tokens
					assert.True(t, slices.Equal(want[i].Tokens[:len(got)], got), "what was written before was right")
				}
			}
			assert.Positive(t, failed)
			assert.Less(t, failed, 5, "the second round has no fault")
			n := e.Stats()
			assert.Equal(t, n.Pages, n.FreePages)
			require.NoError(t, e.Close())
			assert.Zero(t, allocated.Bytes("cuda:0")+allocated.Bytes("cuda:1"))
		})
	}
}

// A GPU that is lost fails the requests that need it, with what the driver said of
// it, and the engine then refuses others; all of it can be closed.
func TestAGPUVanishes(t *testing.T) {
	for _, list := range []string{"cuda:0@1,cuda:1@1", "cuda:1@1,cuda:0@1", "cpu@1,cuda:1@1", "cuda:1@1,cpu@1"} {
		for _, launches := range []int{40, 150} {
			t.Run(fmt.Sprintf("%s at %d", list, launches), func(t *testing.T) {
				emulator.Use(t, emulator.Machine{GPUs: 2, Fault: fmt.Sprintf("vanish:1@%d", launches)})
				e, err := generate.New(t.Context(), parse(t), on(list), pipeline.WithFailureLimit(2))
				require.NoError(t, err)
				lost := 0
				for range 6 {
					_, errs := texts(t, e)
					for _, err := range errs {
						if err == nil {
							continue
						}
						lost++
						var at *stage.Error
						require.ErrorAs(t, err, &at)
						assert.Equal(t, "cuda:1", at.Device)
						assert.Equal(t, "cuda:1", e.Plan().Stages[at.Stage].Device.Name)
						assert.ErrorIs(t, err, device.ErrLost)
						assert.ErrorContains(t, err, "CUDA_ERROR_LAUNCH_FAILED")
					}
				}
				assert.Positive(t, lost)
				_, err = e.Generate(t.Context(), generate.Request{Prompt: "Once"})
				assert.ErrorIs(t, err, pipeline.ErrFailing)
				require.NoError(t, e.Close())
				assert.Zero(t, allocated.Bytes("cuda:0")+allocated.Bytes("cuda:1"))
			})
		}
	}
}

// Where a stage has a replica on another GPU, requests go on there, and end with
// the text that they would have had.
func TestAGPUVanishesBesideItsReplica(t *testing.T) {
	const list = "cuda:0@1|cuda:1@1"
	want := healthy(t, list)
	t.Run("with the fault", func(t *testing.T) {
		emulator.Use(t, emulator.Machine{GPUs: 2, Fault: "vanish:1@200"})
		e, err := generate.New(t.Context(), parse(t), on(list), pipeline.WithFailureLimit(2))
		require.NoError(t, err)
		for range 4 {
			results, errs := texts(t, e)
			assert.Equal(t, [len(openings4)]error{}, errs)
			assert.Equal(t, want, results)
		}
		assert.Positive(t, e.Stats().Moved)
		require.NoError(t, e.Close())
	})
}

// A load that runs out of a GPU's memory, at whatever allocation, says whose memory
// it was and how much is there, and leaves nothing.
func TestAGPURunsOutOfMemoryAtLoad(t *testing.T) {
	emulator.Use(t, emulator.Machine{}) // skips where there is none
	const list = "cuda:0@1,cuda:1@1"
	failures := 0
	for _, gpu := range []int{0, 1} {
		for n := 1; n < 400; n = n*3/2 + 1 {
			fault := fmt.Sprintf("cuMemAlloc:%d@%d", n, gpu)
			t.Run(fault, func(t *testing.T) {
				emulator.Use(t, emulator.Machine{GPUs: 2, Fault: fault})
				e, err := generate.New(t.Context(), parse(t), on(list))
				if err == nil {
					require.NoError(t, e.Close())
					return
				}
				failures++
				name := fmt.Sprintf("cuda:%d", gpu)
				assert.ErrorIs(t, err, device.ErrOutOfMemory)
				for _, part := range []string{name, "cuMemAlloc", "asked for", "free"} {
					assert.ErrorContains(t, err, part)
				}
				var at *stage.Error
				require.ErrorAs(t, err, &at)
				assert.Equal(t, name, at.Device)
				assert.Zero(t, allocated.Bytes("cuda:0")+allocated.Bytes("cuda:1"))
			})
		}
	}
	assert.Greater(t, failures, 8)
}
