package schedule

import "math"

// Want is how many of an output row's largest logits its sequence needs. A batch
// asks for the maximum over its rows, so values compare by size.
type Want int

const (
	// Best asks for the most likely token alone.
	Best Want = 1
	// All asks for every logit of the row.
	All Want = math.MaxInt
)

// Largest asks for the k largest logits of a row, k of at least 1.
func Largest(k int) Want { return Want(k) }

// Batch records what one micro-batch carries. Fill sets it; it must not be
// changed until Returned or Failed has been called with it, and may be filled
// again after that. The zero value is ready to be filled.
type Batch struct {
	Route int    // the route that it was filled for
	Parts []Part // in the order of its rows; empty for a probe
	Want  Want   // the maximum over the sequences with output rows; 0 if there are none
	Probe bool   // it is the row that Probe asked for, which belongs to no sequence

	rows  int
	probe *Sequence
}

// Part is the run of rows that one sequence has in a batch.
type Part struct {
	Seq *Sequence

	// The rows are Seq.Tokens[From:To]. The last Outputs of them have an output
	// row. Output rows lie in the batch in the order of its parts.
	From, To int
	Outputs  int

	// Dropped is set by Returned if the output rows must not be used: the
	// sequence was removed, or its tokens will be computed again on another route.
	Dropped bool
}
