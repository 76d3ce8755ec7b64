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
	b := kernels.SizesFor(d.Kind)
	for _, m := range matrices {
		bytes, err := b.WeightBytes(m.Type, m.Rows, m.Cols)
		if err != nil {
			return c, err
		}
		fixed, perRow := seconds(d, m, bytes)
		c.Weights += bytes
		c.Fixed += fixed
		c.PerRow += perRow
	}
	if cache != nil {
		var err error
		if c.State, err = b.CacheBytes(*cache); err != nil {
			return c, err
		}
	}
	return c, nil
}

// seconds returns how long a product with a matrix takes on a device, where it
// lies in so many bytes: once a batch, and once a row.
func seconds(d device.Info, m kernels.Matrix, bytes int64) (fixed, perRow float64) {
	compute := d.Rates.Float
	// The rate was measured with Q8_0. On a CPU Q4_K and Q6_K, which have no
	// assembly yet, are many times slower, all of them alike: so the layers of
	// a model keep their proportions there, but beside a GPU a CPU seems faster
	// than it is.
	if m.Type.Quantized() {
		compute = d.Rates.Integer
	}
	products := float64(m.Rows) * float64(m.Cols)
	if d.Rates.Memory <= 0 || compute <= 0 {
		cores := float64(max(1, len(d.Cores)))
		return float64(bytes) / bytesPerSecond / cores, products / productsPerSecond / cores
	}
	perRow = products / compute
	// The rate of memory is that of a product of one row, which is multiplied too.
	return max(0, float64(bytes)/d.Rates.Memory-perRow), perRow
}

// copying returns how long it takes to copy bytes within a device.
func copying(d device.Info, bytes float64) float64 {
	if d.Rates.Memory > 0 {
		return bytes / d.Rates.Memory
	}
	return bytes / bytesPerSecond
}
