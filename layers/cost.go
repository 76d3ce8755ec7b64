package layers

import (
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// Cost returns what a layer takes on a device that holds these weights and multiplies
// each row of a batch by each of them, for the Cost method of a layer of one's own. The
// weights' data isn't read and may be nil.
//
// The bytes are those that kernels.Queue.Pack will allocate. The seconds are those in which
// the device reads the weights once a batch and multiplies them once a row, by its measured
// rates; if it hasn't been measured, they are an estimate by which layers can be compared
// with each other. The time of other ops, which is little beside products, isn't counted,
// and nor is the memory of a layer that keeps state: the caller adds them. Cost returns an
// error if a weight has a type or a shape that the device can't have.
func Cost(d device.Info, weights ...kernels.Matrix) (packer.Cost, error) {
	for _, w := range weights {
		if err := checkShape(w.Name, w.Rows, w.Cols); err != nil {
			return packer.Cost{}, err
		}
	}
	return program.Cost(d, weights...)
}
