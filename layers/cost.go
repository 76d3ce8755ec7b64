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
// Bytes are those that kernels.Queue.Pack will allocate. Seconds come of the device's
// measured rates, and are otherwise a guess that is good enough to compare layers with
// each other: the weights are read once a batch and multiplied once a row. Time for other
// ops, which is little beside products, is the caller's to add, and so is the memory of a
// layer that keeps state. Cost returns an error if a weight has a type or a shape that the
// device can't have.
func Cost(d device.Info, weights ...kernels.Matrix) (packer.Cost, error) {
	for _, w := range weights {
		if err := checkShape(w.Name, w.Rows, w.Cols); err != nil {
			return packer.Cost{}, err
		}
	}
	return program.Cost(d, weights...)
}
