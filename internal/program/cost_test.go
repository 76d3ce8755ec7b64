package program

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
	"github.com/leat-dev/leat/stage"
)

// products is a program of products, each with the result of the one before it.
func products(typ kernels.Type, widths ...int) *Program {
	p := New("products", widths[0])
	x := Input
	for i, rows := range widths[1:] {
		x = p.MatMul(x, p.Weight(kernels.Matrix{Name: "w", Type: typ, Rows: rows, Cols: widths[i]}))[0]
	}
	return p
}

// On a device that was measured, a layer takes what its matrices' own types
// take there.
func TestCostByMeasuredRates(t *testing.T) {
	d := device.Info{Name: "cpu:0-3", Kind: device.CPU, Cores: []int{0, 1, 2, 3},
		Rates: device.Rates{Memory: 20e9, Float: 60e9, Integer: 200e9}}
	const rows, cols = 1024, 4096
	for typ, compute := range map[kernels.Type]float64{
		kernels.F32: 60e9, kernels.F16: 60e9, kernels.BF16: 60e9, kernels.Q8_0: 200e9, kernels.Q4_0: 200e9,
		kernels.Q4_K: 200e9, kernels.Q6_K: 200e9,
	} {
		c, err := products(typ, cols, rows).cost(d, stage.Config{})
		require.NoError(t, err)
		require.InEpsilon(t, rows*cols/compute, c.PerRow, 1e-9, typ)
		require.InEpsilon(t, float64(c.Weights)/20e9, c.Fixed+c.PerRow, 1e-9, "one row of %v takes what was measured with one row", typ)
	}

	d.Rates.Memory = 1e12
	c, err := products(kernels.Q8_0, cols, rows).cost(d, stage.Config{})
	require.NoError(t, err)
	require.Zero(t, c.Fixed, "never below nothing")
}

func TestCostWithoutRates(t *testing.T) {
	d := device.Info{Name: "cpu:0-1", Kind: device.CPU, Cores: []int{0, 1}}
	for _, typ := range []kernels.Type{kernels.F16, kernels.Q8_0} {
		c, err := products(typ, 32, 64, 32).cost(d, stage.Config{})
		require.NoError(t, err)
		require.InEpsilon(t, float64(c.Weights)/bytesPerSecond/2, c.Fixed, 1e-9)
		require.InEpsilon(t, 2*64*32/productsPerSecond/2, c.PerRow, 1e-9)
	}
}

func TestCostOfAnEmbeddingIsThatOfACopy(t *testing.T) {
	p := New("embedding", 0)
	l, err := p.Layer(p.Embed(p.Shared(NewShared(kernels.Matrix{Name: "table", Type: kernels.F16, Rows: 512, Cols: 64}))))
	require.NoError(t, err)
	d := device.Info{Name: "cpu:0", Kind: device.CPU, Cores: []int{0}}
	c, err := l.Cost(d, stage.Config{})
	require.NoError(t, err)
	require.Zero(t, c.Fixed)
	require.InEpsilon(t, 64*4/bytesPerSecond, c.PerRow, 1e-9)
	require.Equal(t, "table", c.Shared)
	require.Zero(t, c.Own)

	d.Rates = device.Rates{Memory: 100 * bytesPerSecond, Float: 1e12, Integer: 1e12}
	measured, err := l.Cost(d, stage.Config{})
	require.NoError(t, err)
	require.InEpsilon(t, c.PerRow/100, measured.PerRow, 1e-9)
}
