package stage

// Result holds the results of a batch, in the host's memory. They are complete when the
// batch's Wait has returned nil, and valid until the batch is reset. Their slices must not
// be changed.
type Result struct {
	values  []float32
	chosen  []int32
	columns []int32
	top     []float32
}

// Values returns the output of the last layer, one row after the other. It returns nil if
// Want asks for something else and not for Values.
func (r *Result) Values() []float32 { return r.values }

// Chosen returns the column of each row's largest value, if Want.Best was set, and nil
// otherwise. Of equal values it is the first one's column. It is -1 if all values of the
// row are NaN.
func (r *Result) Chosen() []int32 { return r.chosen }

// Top returns the columns of each row's k largest values, and these values, if Want.Top
// was k > 0. Each slice has k entries for a row, in the order that kernels.TopKer
// describes. If a row has fewer than k numbers that are not NaN, the remaining entries are
// -1 and -Inf. Both slices are nil if Want.Top was 0, or if the device has no operation for
// it; in the second case Values returns all values.
func (r *Result) Top() (columns []int32, values []float32) { return r.columns, r.top }
