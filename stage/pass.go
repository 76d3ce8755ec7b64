package stage

import "github.com/leat-dev/leat/kernels"

// Pass is what a layer sees of a batch: one pass of the batch's rows through the
// layers of one stage. It is valid until Forward returns, and belongs to the stage.
type Pass struct {
	Queue  kernels.Queue   // of the stage's device; between its Begin and End
	Header *kernels.Header // what the rows are, in the host's memory; read only
	Rows   kernels.Rows    // the same on the stage's device, for the ops
	Work   kernels.Tensor  // the stage's workspace, [1, float32s], as much as Shape asked for; later layers overwrite it
	Slot   int             // the batch's, below Config.InFlight: no other batch in flight has it
}

// Floats hands out workspace from front to back: it returns the first rows·cols
// float32s of work as a tensor, and what is left.
func Floats(work kernels.Tensor, rows, cols int) (t, rest kernels.Tensor) {
	n := rows * cols
	t, rest = work, work
	t.Rows, t.Cols = rows, cols
	rest.Off += int64(n) * 4
	rest.Cols -= n
	return t, rest
}
