package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestAttentionSpecCheck(t *testing.T) {
	inf := float32(math.Inf(1))
	require.NoError(t, kernels.AttentionSpec{}.Check())
	require.NoError(t, kernels.AttentionSpec{Scale: -1, Window: 1, SoftCap: 1e-30}.Check())
	require.ErrorContains(t, kernels.AttentionSpec{Window: -1}.Check(), "Window of -1")
	for _, most := range []float32{-1, inf, -inf, float32(math.NaN())} {
		require.ErrorContains(t, kernels.AttentionSpec{SoftCap: most}.Check(), "SoftCap of")
		require.Error(t, kernels.CheckSoftCap(most))
	}
	require.Error(t, kernels.CheckSoftCap(0), "0 is a cap that nothing is within")
	require.NoError(t, kernels.CheckSoftCap(30))
}

func TestActivationsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range kernels.Activations() {
		require.True(t, f.Known())
		require.NotEmpty(t, f.String())
		require.NotContains(t, f.String(), "activation")
		require.False(t, seen[f.String()])
		seen[f.String()] = true
	}
	require.Len(t, seen, int(kernels.Sigmoid))
	for _, f := range []kernels.Activation{0, kernels.Sigmoid + 1, 255} {
		require.False(t, f.Known())
		require.Contains(t, f.String(), "activation ")
	}
}
