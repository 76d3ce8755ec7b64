package arch

import (
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// What one core, or one GPU, is taken to do, where nothing was measured. Only
// ratios matter to the packer: these say how reading a weight once a batch
// compares with computing with it once a row.
const (
	bytesPerSecond    = 10e9
	productsPerSecond = 50e9
)

// cost adds up what a layer takes on a device: its matrices, read once a batch
// and multiplied once a row, and its cache.
func cost(d device.Info, matrices []kernels.Matrix, cache *kernels.CacheSpec) (packer.Cost, error) {
	var c packer.Cost
	b, err := kernels.For(d.Kind)
	if err != nil {
		return c, err
	}
	cores := float64(max(1, len(d.Cores)))
	for _, m := range matrices {
		bytes, err := b.WeightBytes(m.Type, m.Rows, m.Cols)
		if err != nil {
			return c, err
		}
		c.Weights += bytes
		c.Fixed += float64(bytes) / bytesPerSecond / cores
		c.PerRow += float64(m.Rows) * float64(m.Cols) / productsPerSecond / cores
	}
	if cache != nil {
		if c.State, err = b.CacheBytes(*cache); err != nil {
			return c, err
		}
	}
	return c, nil
}
