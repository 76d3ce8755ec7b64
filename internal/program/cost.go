package program

import (
	"errors"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// The assumed speed of one core, or of one GPU, if none was measured. Only the ratio matters to
// the packer: that of reading weights, once for each batch, to computing with them, once for each
// row.
const (
	bytesPerSecond    = 10e9
	productsPerSecond = 50e9
)

// cost returns what the program needs on a device: its matrices, each of which is read once for
// each batch and multiplied once for each row, and its caches.
func (p *Program) cost(d device.Info, config stage.Config) (packer.Cost, error) {
	var c packer.Cost
	var own int64
	b := kernels.SizesFor(d.Kind)
	for _, w := range p.weights[1:] {
		m := w.matrix
		bytes, err := b.WeightBytes(m.Type, m.Rows, m.Cols)
		if err != nil {
			return c, err
		}
		c.Weights += bytes
		if w.shared != nil {
			c.Shared = m.Name
		} else {
			own += bytes
		}
		if w.use == table {
			c.PerRow += copying(d, 4*float64(m.Cols)) // only the rows needed are read
			continue
		}
		fixed, perRow := seconds(d, m, bytes)
		c.Fixed += fixed
		c.PerRow += perRow
	}
	if c.Shared != "" {
		c.Own = own
	}
	for i := range p.caches {
		bytes, err := b.CacheBytes(p.cacheSpec(i, config))
		if err != nil {
			return c, err
		}
		c.State += bytes
	}
	return c, nil
}

// Cost returns what a layer needs on a device if it multiplies each row by each of the matrices,
// whose data it doesn't use: the bytes of the matrices there, and the time to read them, once for
// each batch, and to multiply them, once for each row.
func Cost(d device.Info, matrices ...kernels.Matrix) (packer.Cost, error) {
	var c packer.Cost
	sizes := kernels.SizesFor(d.Kind)
	for _, m := range matrices {
		bytes, err := sizes.WeightBytes(m.Type, m.Rows, m.Cols)
		if err == nil && bytes > math.MaxInt64-c.Weights {
			err = errors.New("with the weights before it, it has more than 2^63 bytes")
		}
		if err != nil {
			return packer.Cost{}, fmt.Errorf("%s: %w", m.Name, err)
		}
		fixed, perRow := seconds(d, m, bytes)
		c.Weights += bytes
		c.Fixed += fixed
		c.PerRow += perRow
	}
	return c, nil
}

// seconds returns the time of a product with a matrix, which has the given size on the device: for
// each batch, and for each row.
func seconds(d device.Info, m kernels.Matrix, bytes int64) (fixed, perRow float64) {
	compute := d.Rates.Float
	// The rate was measured with Q8_0. Other quantized types may be slower. If all layers of a
	// model have the same types, the ratios between them are right nevertheless; those
	// between devices of different kinds need not be.
	if m.Type.Quantized() {
		compute = d.Rates.Integer
	}
	products := float64(m.Rows) * float64(m.Cols)
	if d.Rates.Memory <= 0 || compute <= 0 {
		cores := float64(max(1, len(d.Cores)))
		return float64(bytes) / bytesPerSecond / cores, products / productsPerSecond / cores
	}
	perRow = products / compute
	// The memory rate is that of a product with one row, and so includes computing that row.
	return max(0, float64(bytes)/d.Rates.Memory-perRow), perRow
}

// copying returns the time of copying bytes within a device.
func copying(d device.Info, bytes float64) float64 {
	if d.Rates.Memory > 0 {
		return bytes / d.Rates.Memory
	}
	return bytes / bytesPerSecond
}
