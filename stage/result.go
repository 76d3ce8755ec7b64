package stage

// Result is what came out of the last stage for a batch, in the host's memory. It
// is complete when the batch's Wait has returned nil, and stays valid until the
// batch is reset.
type Result struct {
	values  []float32
	chosen  []int32
	columns []int32
	top     []float32
}

// Values returns all values, one row after the other. It is nil where Want asked
// for something else and not for Values.
func (r *Result) Values() []float32 { return r.values }

// Chosen returns, where Want.Best was set, the column of each row's largest value:
// the first of equal ones, and -1 where none is a number. It is nil otherwise.
func (r *Result) Chosen() []int32 { return r.chosen }

// Top returns, where Want.Top was k, the columns of each row's k largest values and
// these values: k of each for a row, in the order of kernels.TopKer, with -1 and
// -Inf behind where a row has fewer numbers. Both are nil otherwise, and also where
// the stage's device has no op for it: Values then has all values.
func (r *Result) Top() (columns []int32, values []float32) { return r.columns, r.top }
