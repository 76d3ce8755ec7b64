package layers_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// eachDevice runs a test on the CPU and on an emulated GPU.
func eachDevice(t *testing.T, test func(t *testing.T, d device.Device)) {
	t.Run("cpu", func(t *testing.T) { test(t, kerneltest.CPU(t, 1)) })
	t.Run("cuda", func(t *testing.T) {
		emulator.Use(t, emulator.Machine{GPUs: 1})
		test(t, kerneltest.Open(t, "cuda:0"))
	})
}

var config = stage.Config{MaxRows: 8, MaxOutputs: 8, InFlight: 2}

// A layer takes what its cost says, and leaves nothing.
func TestCostIsWhatLoadTakes(t *testing.T) {
	eachDevice(t, func(t *testing.T, d device.Device) {
		r := kerneltest.Backend{}.On(t, d)
		for _, l := range mixed(t, d.Info().Kind) {
			c, err := l.Cost(d.Info(), config)
			require.NoError(t, err)
			before := d.Allocated()
			runner, err := l.Load(t.Context(), r.Q, config)
			require.NoError(t, err)
			assert.Equal(t, c.Weights, d.Allocated()-before, l.Name())
			assert.Positive(t, c.Fixed+c.PerRow, l.Name())
			require.NoError(t, runner.Close())
			require.Equal(t, before, d.Allocated(), l.Name())
		}
	})
}

// Cost is for layers of one's own what Dense's own is.
func TestCost(t *testing.T) {
	for _, d := range []device.Info{
		{Name: "cpu:0-1", Kind: device.CPU, Cores: []int{0, 1}, HostMemory: true},
		{Name: "cpu:0", Kind: device.CPU, HostMemory: true, Rates: device.Rates{Memory: 1e10, Float: 1e11, Integer: 2e11}},
		{Name: "cuda:0", Kind: device.CUDA},
		{Name: "rocm:0", Kind: device.ROCm}, // there is no backend: an estimate
	} {
		want, err := dense(t, "a", 300, 200, kernels.ReLU).Cost(d, config)
		require.NoError(t, err)
		got, err := layers.Cost(d, kernels.Matrix{Type: kernels.F32, Rows: 200, Cols: 300}, kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: 200})
		require.NoError(t, err)
		assert.Equal(t, want.Weights, got.Weights, d.Name)
		assert.InEpsilon(t, want.Fixed, got.Fixed, 1e-9, d.Name)
		assert.InEpsilon(t, want.PerRow, got.PerRow, 1e-9, d.Name)

		none, err := layers.Cost(d)
		require.NoError(t, err)
		assert.Zero(t, none)
		huge := kernels.Matrix{Name: "huge", Type: kernels.F32, Rows: 1 << 31, Cols: 1 << 28}
		for _, weights := range [][]kernels.Matrix{
			{{Name: "huge", Type: kernels.F32, Rows: 1 << 62, Cols: 1 << 62}},
			{{Name: "huge", Type: kernels.F32, Rows: -1, Cols: 3}},
			{{Name: "huge", Rows: 1, Cols: 3}},
			{huge, huge, huge, huge},
		} {
			_, err = layers.Cost(d, weights...)
			assert.ErrorContains(t, err, "huge: ", d.Name)
		}
	}
}

// A function's cost is its time, and on a device with a memory of its own that of two
// copies.
func TestCostOfAFunction(t *testing.T) {
	l := function(t, "f", 3, 5, func(_, _ []float32) error { return nil })
	cpu, gpu := device.Info{Kind: device.CPU, HostMemory: true}, device.Info{Kind: device.CUDA}
	here, err := l.Cost(cpu, config)
	require.NoError(t, err)
	there, err := l.Cost(gpu, config)
	require.NoError(t, err)
	assert.Positive(t, here.PerRow)
	assert.Greater(t, there.PerRow, here.PerRow)
	assert.Greater(t, there.Fixed, here.Fixed)
	assert.Zero(t, here.Weights+there.Weights)

	l.PerRow = 20e6 // 20 ms
	here, err = l.Cost(cpu, config)
	require.NoError(t, err)
	assert.InEpsilon(t, 0.02, here.PerRow, 1e-9)
	l.PerRow = -1
	_, err = l.Cost(cpu, config)
	assert.ErrorContains(t, err, "PerRow is -1ns")
}

// forward has a layer compute rows on a device.
func forward(r *kerneltest.Rig, runner stage.Runner, in, out kernels.Tensor) error {
	var err error
	if failed := r.Try(func(q kernels.Queue) { err = runner.Forward(&stage.Pass{Queue: q}, in, out) }); err == nil {
		err = failed
	}
	return err
}

// A layer writes to its rows alone, of which a batch has any number.
func TestForwardStaysInItsRows(t *testing.T) {
	eachDevice(t, func(t *testing.T, d device.Device) {
		r := kerneltest.Backend{}.On(t, d)
		for _, l := range []stage.Layer{
			dense(t, "dense", 5, 3, kernels.SiLU),
			function(t, "function", 5, 3, func(dst, src []float32) error {
				require.Equal(t, []float32{0, 0, 0}, dst, "what others left there is gone")
				require.Equal(t, []int{3, 5}, []int{cap(dst), cap(src)})
				_, _ = append(dst, 99), append(src, 99)
				copy(dst, src[1:])
				return nil
			}),
		} {
			runner, err := l.Load(t.Context(), r.Q, config)
			require.NoError(t, err)
			for rows := range config.MaxRows + 1 {
				in, out := r.Tensor(rows, 5, values(1, rows*5)), r.Tensor(rows, 3, nil)
				require.NoError(t, forward(r, runner, in, out), "%s of %d rows", l.Name(), rows)
				for _, y := range r.Read(out) {
					require.False(t, y != y, "%s of %d rows: a number wasn't written", l.Name(), rows)
				}
			}
			require.NoError(t, runner.Close())
		}
	})
}

// Batches that a stage wouldn't send, and sizes that no memory has, are errors.
func TestFunctionRefuses(t *testing.T) {
	eachDevice(t, func(t *testing.T, d device.Device) {
		r := kerneltest.Backend{}.On(t, d)
		l := function(t, "f", 5, 3, func(_, _ []float32) error { return nil })
		runner, err := l.Load(t.Context(), r.Q, config)
		require.NoError(t, err)
		x, y := r.Tensor(2, 5, values(1, 10)), r.Tensor(2, 3, nil)
		for _, c := range []struct{ in, out kernels.Tensor }{{x.First(1), y}, {y, y}, {x, x}, {kernels.Tensor{Rows: 2}, y}} {
			require.ErrorContains(t, forward(r, runner, c.in, c.out), "the function is for rows of 5 that become as many rows of 3")
		}
		require.Error(t, forward(r, runner, kernels.Tensor{Rows: 1 << 20, Cols: 5, Type: kernels.F32, Buf: x.Buf}, kernels.Tensor{Rows: 1 << 20, Cols: 3, Type: kernels.F32, Buf: y.Buf}))
		require.NoError(t, forward(r, runner, x, y), "it is as good as before")
		require.NoError(t, runner.Close())
		if !d.Info().HostMemory {
			_, err = l.Load(t.Context(), r.Q, stage.Config{MaxRows: 1 << 61})
			require.ErrorContains(t, err, "a batch of 2305843009213693952 rows of 5 numbers is more than")
		}
	})
}

// On a GPU a function has memory of the host's. Where there is none, the error says so, and
// nothing is left, for which the emulated driver looks.
func TestFunctionWithoutRoom(t *testing.T) {
	for _, from := range []int{1, 2, 3, 4} {
		emulator.Use(t, emulator.Machine{GPUs: 1, Fault: fmt.Sprintf("cuMemHostAlloc:%d+", from)})
		f := function(t, "f", 5, 3, func(_, _ []float32) error { return nil })
		_, err := pipeline.New(t.Context(), []stage.Layer{f}, pipeline.WithInput(5), pipeline.WithDevices("cuda:0"))
		require.ErrorContains(t, err, "stage 0 (f) on cuda:0: loading: ")
		if from == 2 || from == 3 { // behind the queue's own memory, and before the stage's
			require.ErrorContains(t, err, "allocating host memory for rows: cuda:0: cuMemHostAlloc: ")
		}
	}
}
