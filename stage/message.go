package stage

import (
	"github.com/leat-dev/leat/kernels"
)

// Message is the part of a batch that is passed from stage to stage: the description of the
// rows, the results that are wanted, and the activations that the previous stage has
// computed. Within a process it is passed as part of a [Batch]. A [Link] to another process
// encodes it with AppendBinary or MarshalBinary, and decodes it with UnmarshalBinary.
type Message struct {
	// Number is the batch's number, from 1, in the order in which batches were sent. It is
	// 0 until the batch is sent.
	Number uint64

	// Route is the route that the batch takes; see Replicas. The sender sets it, from 0 to
	// Position.Routes-1. Reset sets it to 0.
	Route int

	// Want says which results the sender wants. Reset sets it to the zero value, which asks
	// for all values.
	Want Want

	// Header describes the rows. The sender fills it, and then calls Seal.
	Header *kernels.Header

	// Input holds activations in the host's memory, one row after the other. It is read by
	// the first stage of a pipeline with Config.Input, and by any stage whose Upstream has
	// no device. The sender writes the batch's rows to the beginning of Input.
	// UnmarshalBinary also writes the activations there, and allocates a new Input only if
	// it is too small. Reset keeps Input.
	Input []float32

	// Failure is the error of a batch that has failed in an earlier stage. Such a message
	// has no activations, and the following stages only pass it on. It is nil if the batch
	// has not failed.
	Failure *Error

	width   int            // float32s in a row of Input; 0: the first stage reads no Input
	encoded []byte         // the encoded header, set by Seal
	x       kernels.Tensor // the activations; without a buffer, the shape of those in Input or host
	bare    bool           // it was decoded without activations: what Input holds is not its own
	host    []float32      // a copy of x in the host's memory, made by a stage with Position.Host
}

// Seal encodes the header. The sender calls it once, after it has filled the header and
// before it sends the batch.
func (m *Message) Seal() { m.encoded = m.Header.Encode() }

func (m *Message) reset() {
	m.Header.Reset()
	m.Number, m.Route, m.Want, m.Failure = 0, 0, Want{}, nil
	m.encoded, m.x, m.bare, m.host = nil, kernels.Tensor{}, false, nil
}

// Want says which results the sender of a batch wants, for each row of the last stage's
// output. They are selected on that stage's device, so that the host need not read whole
// rows if a few numbers are enough. The fields may be combined. The zero value asks for all
// values.
type Want struct {
	Values bool // all columns, in Result.Values; implied if nothing else is wanted
	Best   bool // the column of the largest value, in Result.Chosen
	Top    int  // the number of largest values that are wanted with their columns, in Result.Top; at most Config.MaxTop
}

// all reports whether all values are wanted.
func (w Want) all() bool { return w.Values || !w.Best && w.Top == 0 }
