package stage

import (
	"github.com/leat-dev/leat/kernels"
)

// Message is the part of a batch that travels from stage to stage: what the rows
// are, what is wanted of their results, and the activations that the stage before
// computed from them. Within a process it travels in place, as part of a [Batch].
// A [Link] to another process writes it with AppendBinary or MarshalBinary and
// reads it back with UnmarshalBinary.
type Message struct {
	// Number counts the batches that were sent, from 1. It is 0 until the batch
	// is sent.
	Number uint64

	// Route says which replica the message goes to at each stage that has several;
	// see Replicas. The sender sets it, below Position.Routes. Reset sets it to 0.
	Route int

	// Want says what the sender wants of the results. Reset sets it to the zero
	// value, which asks for all values.
	Want Want

	// Header describes the rows. The sender fills it, and calls Seal after the
	// last row.
	Header *kernels.Header

	// Input holds activations in the host's memory, one row after the other, for a
	// stage that reads them from there: the first stage of a pipeline with
	// Config.Input, and any stage whose Upstream has no device. The sender writes
	// the rows of the header to its beginning. UnmarshalBinary does the same, and
	// replaces Input only where it is too small. Reset keeps it.
	Input []float32

	// Failure says why the message has no activations: the stages that follow pass
	// it on without computing anything. It is nil for a batch that has not failed.
	Failure *Error

	width   int            // of a row of Input, in float32s; 0 where a first stage reads none
	encoded []byte         // the header, since Seal
	x       kernels.Tensor // the activations; with no buffer, their shape in Input or host
	bare    bool           // it came over a wire without activations: Input isn't its own
	host    []float32      // a copy of x in the host's memory, from a stage with Position.Host
}

// Seal encodes the header. The sender calls it once, after the last row is in and
// before the batch is sent.
func (m *Message) Seal() { m.encoded = m.Header.Encode() }

func (m *Message) reset() {
	m.Header.Reset()
	m.Number, m.Route, m.Want, m.Failure = 0, 0, Want{}, nil
	m.encoded, m.x, m.bare, m.host = nil, kernels.Tensor{}, false, nil
}

// Want says what a batch's sender wants of each row that comes out of the last
// stage. What is wanted is computed on that stage's device, so that the host never
// scans a whole row of logits where a few numbers tell it enough. The parts may be
// combined. The zero value asks for all values.
type Want struct {
	Values bool // all columns, in Result.Values; implied where nothing else is wanted
	Best   bool // the column of the largest value, in Result.Chosen
	Top    int  // the columns and values of so many largest values, in Result.Top; at most Config.MaxTop
}

// all reports whether all values are wanted.
func (w Want) all() bool { return w.Values || !w.Best && w.Top == 0 }
