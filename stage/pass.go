package stage

import "github.com/leat-dev/leat/kernels"

// Pass is a batch as a layer sees it. It belongs to the stage, and is valid until
// [Runner].Forward returns.
type Pass struct {
	Queue  kernels.Queue   // the queue of the stage's device; its Begin has been called
	Header *kernels.Header // the description of the batch's rows, in the host's memory; it must not be changed
	Rows   kernels.Rows    // the same description on the stage's device, for operations
	Work   kernels.Tensor  // workspace of the stage, a [1, n] tensor in which n is at least Shape.Scratch × Config.MaxRows; all layers of the stage use the same memory
	Slot   int             // the batch's slot, from 0 to Config.InFlight-1; all batches in flight have different ones
}

// Floats takes a tensor from the beginning of a workspace. It returns the first rows·cols
// float32s of work as a tensor of that shape, and the rest of the workspace.
func Floats(work kernels.Tensor, rows, cols int) (t, rest kernels.Tensor) {
	n := rows * cols
	t, rest = work, work
	t.Rows, t.Cols = rows, cols
	rest.Off += int64(n) * 4
	rest.Cols -= n
	return t, rest
}
