package layers_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func TestWhatIsNoFunction(t *testing.T) {
	row := func(_, _ []float32) error { return nil }
	for want, c := range map[string]struct {
		name    string
		in, out int
	}{
		"the layer of a function has no name":                                                  {"", 1, 1},
		"a: a function from rows of 0 numbers to rows of 1: both must be from 1 to 2147483648": {"a", 0, 1},
		"a: a function from rows of 1 numbers to rows of -1":                                   {"a", 1, -1},
		"a: a function from rows of 9223372036854775807 numbers":                               {"a", math.MaxInt, 1},
	} {
		l, err := layers.NewRowFunc(c.name, c.in, c.out, row)
		require.ErrorContains(t, err, want)
		require.Nil(t, l)
	}
	_, err := layers.NewRowFunc("a", 1, 1, nil)
	require.ErrorContains(t, err, "a: there is no function")
	_, err = layers.NewBatchFunc("a", 1, 1, nil)
	require.ErrorContains(t, err, "a: there is no function")
}

// fails is a function that fails on rows which begin with 1, 2 or 3, each in its way, and
// otherwise adds 1.
func fails(dst, src []float32) error {
	switch src[0] {
	case 1:
		return errOdd
	case 2:
		panic("told to panic")
	case 3:
		runtime.Goexit()
	}
	for i, v := range src {
		dst[i] = v + 1
	}
	return nil
}

// Of calls that share batches, those fail whose rows make the function fail.
func TestAFunctionFailsItsOwnCallAlone(t *testing.T) {
	for _, list := range []string{"cpu/2", "cpu:0|cpu:0"} {
		network := []stage.Layer{
			function(t, "f", 2, 2, fails),
			function(t, "g", 2, 2, func(dst, src []float32) error { copy(dst, src); return nil }),
		}
		p := open(t, network, 2, pipeline.WithDevices(stagetest.Devices(t, list)), pipeline.WithFailureLimit(0))
		var callers sync.WaitGroup
		for i := range 40 {
			callers.Go(func() {
				bad := float32(i % 8)
				y, err := p.Do(context.Background(), []float32{bad, 7})
				switch bad {
				case 1, 2, 3:
					var e *stage.Error
					if assert.ErrorAs(t, err, &e) {
						assert.Contains(t, e.Error(), map[float32]string{1: ": an odd row", 2: ": panic: told to panic", 3: ": a layer ended"}[bad])
						assert.Contains(t, e.Layers, "f")
						assert.Equal(t, bad == 1, errors.Is(err, errOdd))
					}
				default:
					assert.NoError(t, err)
					assert.Equal(t, []float32{bad + 1, 8}, y)
				}
			})
		}
		callers.Wait()
	}
}

// A function of whole batches sees all rows of a batch at once, and no others.
func TestBatchFunc(t *testing.T) {
	most := 0
	l, err := layers.NewBatchFunc("sums", 3, 1, func(dst, src []float32, rows int) error {
		most = max(most, rows)
		assert.Equal(t, []int{rows, rows, 3 * rows, 3 * rows}, []int{len(dst), cap(dst), len(src), cap(src)})
		for i := range rows {
			dst[i] = src[3*i] + src[3*i+1] + src[3*i+2]
		}
		return nil
	})
	require.NoError(t, err)
	p := open(t, []stage.Layer{l}, 3, pipeline.WithDevices(stagetest.Devices(t, "cpu")))
	y, err := p.Do(t.Context(), []float32{1, 2, 3, 4, 5, 6, 7, 8, 9})
	require.NoError(t, err)
	assert.Equal(t, []float32{6, 15, 24}, y)
	require.NoError(t, p.Close())
	assert.Positive(t, most)
}

// Beside a GPU a plan puts functions on the CPU, if it can.
func TestPlansPutFunctionsOnTheCPU(t *testing.T) {
	plan, err := pipeline.NewPlan(t.Context(), []stage.Layer{
		dense(t, "a", 64, 64, kernels.ReLU), function(t, "f", 64, 64, func(_, _ []float32) error { return nil }),
	}, pipeline.WithInput(64), pipeline.WithImagined("cuda:0=1GiB,cpu:0=1GiB"))
	require.NoError(t, err)
	require.Len(t, plan.Stages, 2)
	assert.Equal(t, "f", plan.Stages[1].Layers)
	assert.Equal(t, "cpu:0", plan.Stages[1].Device.Name)
}

// Wherever they stand, functions and dense layers are neighbours. Whole numbers make each
// order of sums exact.
func TestFunctionsOnGPUs(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	twice, err := layers.NewDense("twice", 2, 2, []float32{2, 0, 0, 2}, []float32{1, 2}, kernels.ReLU)
	require.NoError(t, err)
	again, err := layers.NewDense("again", 2, 2, []float32{2, 0, 0, 2}, nil, layers.Linear)
	require.NoError(t, err)
	network := []stage.Layer{
		function(t, "f", 2, 2, fails), twice,
		function(t, "swap", 2, 2, func(dst, src []float32) error { dst[0], dst[1] = src[1], src[0]; return nil }), again,
	}
	for _, list := range []string{"cuda:0", "cuda:0@1,cuda:1@1", "cuda:0@1,cpu:0@1", "cpu:0@1,cuda:0@1", "cuda:0@1|cuda:1@1"} {
		p := open(t, network, 2, pipeline.WithDevices(list), pipeline.WithFailureLimit(0), pipeline.WithMaxBatch(4))
		var callers sync.WaitGroup
		for i := range 32 {
			callers.Go(func() {
				x := float32(i % 8)
				y, err := p.Do(context.Background(), []float32{x, 10})
				if x == 1 || x == 2 || x == 3 {
					assert.ErrorAs(t, err, new(*stage.Error), list)
					return
				}
				assert.NoError(t, err, list)
				assert.Equal(t, []float32{2 * (2*11 + 2), 2 * (2*(x+1) + 1)}, y, list)
			})
		}
		callers.Wait()
		require.NoError(t, p.Close())
	}
}
