package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// doubling is n layers, each of which doubles and adds 1.
func doubling(n int) (layers []stage.Layer) {
	for i := range n {
		layers = append(layers, &stagetest.Layer{Called: fmt.Sprintf("block %d", i), Width: 3, Factor: 2, Term: 1})
	}
	return layers
}

func doubled(x float32, times int) float32 {
	for range times {
		x = 2*x + 1
	}
	return x
}

func TestPlan(t *testing.T) {
	layers := doubling(6)
	for _, l := range layers {
		l.(*stagetest.Layer).Costs.Weights = 1 << 20
		l.(*stagetest.Layer).Costs.Fixed = 1
	}
	plan, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices("cpu@1,cpu@2"))
	require.NoError(t, err)
	require.Len(t, plan.Stages, 2)
	assert.Equal(t, "blocks 0-1", plan.Stages[0].Layers, "half the speed, half the layers")
	assert.Equal(t, "blocks 2-5", plan.Stages[1].Layers)
	assert.EqualValues(t, 4<<20, plan.Stages[1].Weights)

	_, err = pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices("cpu=1MiB"))
	assert.ErrorIs(t, err, packer.ErrNoFit)

	plan, err = pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices("cpu=3200KiB,cpu"), pipeline.WithPack(pipeline.FirstFit), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	assert.Equal(t, "blocks 0-2", plan.Stages[0].Layers)
	assert.LessOrEqual(t, plan.Stages[0].Bytes(), plan.Stages[0].Budget)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []pipeline.Option{
		pipeline.WithPack("tight"),
		pipeline.WithInFlight(-1),
		pipeline.WithMaxBatch(0),
		pipeline.WithMaxBatch(1 << 30),
		pipeline.WithQueue(),
		pipeline.WithQueue(1, -1),
		pipeline.WithThreads(-2),
		pipeline.WithInput(0),
		pipeline.WithMaxWait(-1),
		pipeline.WithBacklog(0),
		pipeline.WithAhead(-1),
		pipeline.WithFailureLimit(-1),
		pipeline.WithDevices("gpu:0"),
		pipeline.WithDevices(""),
	} {
		_, err := pipeline.NewPlan(t.Context(), doubling(2), o)
		assert.Error(t, err)
	}
	_, err := pipeline.NewPlan(t.Context(), nil)
	assert.Error(t, err)
}

// A layer that ends the goroutine that loads it leaves nothing on the device.
func TestGoexitWhileLoadingLeavesNothing(t *testing.T) {
	layers := append(doubling(2), exits{doubling(3)[2]})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := pipeline.New(t.Context(), layers, pipeline.WithDevices("cpu:0"), pipeline.WithInput(3))
		assert.NoError(t, err, "it doesn't return")
	}()
	<-ended
	assert.Zero(t, allocated.Bytes("cpu:0"))
	assert.Equal(t, 1, layers[0].(*stagetest.Layer).Closed)
}

type exits struct{ stage.Layer }

func (exits) Load(context.Context, kernels.Queue, stage.Config) (stage.Runner, error) {
	runtime.Goexit()
	return nil, nil
}

// reads is a layer that says how wide the rows are that it reads.
type reads struct {
	stage.Layer
	width int
}

func (l reads) Shape() stage.Shape {
	s := l.Layer.Shape()
	s.Input = l.width
	return s
}

func TestLayersThatDoNotFitEachOther(t *testing.T) {
	layers := mixing(3, 4, 5)
	layers[0], layers[1] = reads{layers[0], 3}, reads{layers[1], 4}
	open(t, layers, pipeline.WithInput(3), pipeline.WithDevices("cpu"))
	for want, c := range map[string]struct {
		layers []stage.Layer
		input  int
	}{
		"block 0 reads rows of 3 numbers, and the input has rows of 2": {layers, 2},
		"block 1 reads rows of 4 numbers, and the input has rows of 3": {layers[1:], 3},
		`layers 0 and 2 are both called "block 0"`:                     {append(layers[:2:2], mixing(5, 3)...), 3},
	} {
		_, err := pipeline.New(t.Context(), c.layers, pipeline.WithInput(c.input), pipeline.WithDevices("cpu"))
		assert.ErrorContains(t, err, want)
	}
	_, err := pipeline.New(t.Context(), []stage.Layer{&stagetest.Rows{Called: "wide", Width: 1 << 60}}, pipeline.WithInput(3), pipeline.WithDevices("cpu"))
	assert.ErrorContains(t, err, "wide: a row of its output has 1152921504606846976 numbers")
}

// loads is a layer whose loading waits until the test lets it go on.
type loads struct {
	stage.Layer
	loading, goOn chan struct{}
}

func (l loads) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	close(l.loading)
	<-l.goOn
	return l.Layer.Load(ctx, q, c)
}

// The end of a context ends the wait for another pipeline that is being loaded.
func TestStartingWaitsNoLongerThanItsContext(t *testing.T) {
	slow := loads{mixing(1, 1)[0], make(chan struct{}), make(chan struct{})}
	var starting sync.WaitGroup
	starting.Go(func() {
		p, err := pipeline.New(t.Context(), []stage.Layer{slow}, pipeline.WithInput(1), pipeline.WithDevices("cpu"))
		if assert.NoError(t, err) {
			assert.NoError(t, p.Close())
		}
	})
	<-slow.loading
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // enough to plan in
	defer cancel()
	_, err := pipeline.New(ctx, mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices("cpu"))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "waiting for another pipeline to open")
	close(slow.goOn)
	starting.Wait()
}
