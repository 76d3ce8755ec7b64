package layers_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/leat-dev/leat/device/cuda" // also in a build without GPUs
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/gpu"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// values returns n random numbers around 1.
func values(seed uint64, n int) []float32 { return kerneltest.Normals(kerneltest.NewRand(seed), n) }

// dense is a layer of random weights and a bias.
func dense(t testing.TB, name string, in, out int, f kernels.Activation) *layers.Dense {
	t.Helper()
	l, err := layers.NewDense(name, in, out, values(uint64(in), in*out), values(uint64(out), out), f)
	require.NoError(t, err)
	return l
}

// function is a layer of a function over rows.
func function(t testing.TB, name string, in, out int, f func(dst, src []float32) error) *layers.Func {
	t.Helper()
	l, err := layers.NewRowFunc(name, in, out, f)
	require.NoError(t, err)
	return l
}

// open opens a pipeline for the time of a test.
func open(t testing.TB, network []stage.Layer, in int, options ...pipeline.Option) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New(t.Context(), network, append(options, pipeline.WithInput(in))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// together computes x in calls of n rows each, all at the same time.
func together(t testing.TB, p *pipeline.Pipeline, x []float32, n int) []float32 {
	t.Helper()
	var callers sync.WaitGroup
	parts := slices.Collect(slices.Chunk(x, n*p.Input()))
	y := make([][]float32, len(parts))
	for i, part := range parts {
		callers.Go(func() {
			var err error
			y[i], err = p.Do(context.Background(), part)
			assert.NoError(t, err)
		})
	}
	callers.Wait()
	return slices.Concat(y...)
}

var errOdd = errors.New("an odd row")
