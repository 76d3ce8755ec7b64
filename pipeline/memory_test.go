package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/internal/stagetest/simulated"
	"github.com/leat-dev/leat/pipeline"
)

// Whether devices share a memory is a property of theirs, whatever their kind: a GPU
// that has its buffers in the host's memory is planned as the cores are, and results go
// from one to the other in place.
func TestAGPUInTheHostsMemory(t *testing.T) {
	layers := doubling(3)
	for _, l := range layers {
		l.(*stagetest.Layer).Costs.Fixed = 1
	}
	cpu, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	devices := pipeline.WithDevices(fmt.Sprintf("%s,cpu@%d,%s", simulated.Place(0), len(cpu[0].Info.Cores), simulated.Place(1)))
	p, err := pipeline.New(t.Context(), layers, devices, pipeline.WithInput(3), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	stages := p.Plan().Stages
	require.Len(t, stages, 3)
	for _, s := range stages {
		assert.Equal(t, "the host's memory", s.Memory)
	}
	alone, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices(simulated.Place(1)+","+simulated.Place(1)+","+simulated.Place(1)), pipeline.WithInput(3), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	assert.Equal(t, alone.Stages[2].Overhead, stages[2].Overhead, "there is no room for copies of what the CPU hands on")

	y, err := p.Do(t.Context(), []float32{5, 5, 5})
	require.NoError(t, err)
	assert.Equal(t, doubled(5, 3), y[0])
}
