package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
)

// The encoding of a message, version 1. All numbers are little-endian.
//
//	offset  bytes
//	0       4      "leat"
//	4       2      version
//	6       2      flags: 1 Want.Values, 2 Want.Best, 4 the message has failed
//	8       8      Number
//	16      4      Route
//	20      4      Want.Top
//	24      4      bytes of the header
//	28      4      rows of activations
//	32      4      float32s in a row of activations
//	36      4      bytes of the failure
//	40             the header, as kernels.Header.Encode writes it
//	               the activations
//	               the failure: the stage's number (4 bytes), then layers, layer,
//	               device and what went wrong, each preceded by its length (4 bytes)
const (
	wireMagic   = "leat"
	wireVersion = 1
	wirePrefix  = 40

	flagValues = 1 << 0
	flagBest   = 1 << 1
	flagFailed = 1 << 2
)

// mostFailure limits the bytes of each text of a failure. The rest is not written.
const mostFailure = 4 << 10

// AppendBinary appends the encoded message, with its activations or its failure. The
// activations must be complete and in the host's memory. For a stage on a device that is
// asynchronous or has memory of its own, set Position.Host, and call the batch's Wait
// before AppendBinary. AppendBinary implements [encoding.BinaryAppender].
func (m *Message) AppendBinary(to []byte) ([]byte, error) {
	header := m.encoded
	if header == nil {
		header = m.Header.Encode()
	}
	rows, cols, values, err := m.activations()
	if err != nil {
		return to, err
	}
	if m.Route < 0 || m.Route > math.MaxInt32 || m.Want.Top < 0 || m.Want.Top > math.MaxInt32 {
		return to, fmt.Errorf("a message for route %d that wants the %d largest values", m.Route, m.Want.Top)
	}
	var flags uint16
	if m.Want.Values {
		flags |= flagValues
	}
	if m.Want.Best {
		flags |= flagBest
	}
	var failure []byte
	if m.Failure != nil {
		flags |= flagFailed
		failure = m.Failure.append(nil)
	}
	le := binary.LittleEndian
	to = append(to, wireMagic...)
	to = le.AppendUint16(to, wireVersion)
	to = le.AppendUint16(to, flags)
	to = le.AppendUint64(to, m.Number)
	for _, n := range [...]int{m.Route, m.Want.Top, len(header), rows, cols, len(failure)} {
		to = le.AppendUint32(to, uint32(n))
	}
	to = append(to, header...)
	to = append(to, values...)
	return append(to, failure...), nil
}

// MarshalBinary returns the bytes that AppendBinary appends. It implements
// [encoding.BinaryMarshaler].
func (m *Message) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// activations returns the message's activations in the host's memory.
func (m *Message) activations() (rows, cols int, values []byte, err error) {
	if m.Failure != nil || m.bare {
		return 0, 0, nil, nil
	}
	rows, cols = m.x.Rows, m.x.Cols
	from := m.Input
	switch {
	case cols == 0: // no stage has computed it
		rows, cols = len(m.Header.Tokens), m.width
	case m.host != nil:
		from = m.host
	case m.x.Buf == nil:
	case m.x.Buf.Bytes() != nil:
		return rows, cols, m.x.Buf.Bytes()[m.x.Off:][:m.x.Bytes()], nil
	default:
		return 0, 0, nil, fmt.Errorf("a message's activations are in the memory of %s: load the stage with Position.Host, and wait for the batch first", m.x.Buf.Device().Info().Name)
	}
	if rows == 0 || cols == 0 {
		return 0, 0, nil, nil
	}
	if len(from) < rows*cols {
		return 0, 0, nil, fmt.Errorf("a message of %d rows of %d numbers has %d numbers", rows, cols, len(from))
	}
	return rows, cols, bytesOf(from[:rows*cols]), nil
}

var errWire = errors.New("not a message of a pipeline")

// UnmarshalBinary replaces the message with one that AppendBinary has encoded. It writes the
// activations to Input, for which it allocates memory only if Input is too small, and seals
// the header. Data may come from an untrusted source: if it isn't exactly one message,
// UnmarshalBinary returns an error, and the message must be reset before it is used again.
// UnmarshalBinary allocates no more memory than data has bytes, and doesn't keep data. It
// implements [encoding.BinaryUnmarshaler].
func (m *Message) UnmarshalBinary(data []byte) error {
	if err := m.unmarshal(data); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

func (m *Message) unmarshal(data []byte) error {
	if len(data) < wirePrefix || string(data[:4]) != wireMagic {
		return fmt.Errorf("%d bytes that don't begin as a message does", len(data))
	}
	le := binary.LittleEndian
	if v := le.Uint16(data[4:]); v != wireVersion {
		return fmt.Errorf("the version is %d, and this program reads version %d", v, wireVersion)
	}
	flags := le.Uint16(data[6:])
	if flags&^(flagValues|flagBest|flagFailed) != 0 {
		return fmt.Errorf("unknown flags in %#x", flags)
	}
	word := func(i int) uint64 { return uint64(le.Uint32(data[i:])) }
	number := le.Uint64(data[8:])
	route, top, header, rows, cols, failure := word(16), word(20), word(24), word(28), word(32), word(36)
	rest := uint64(len(data) - wirePrefix)
	numbers := rows * cols // no overflow: each is below 2³²
	if numbers > rest || header+4*numbers+failure != rest {
		return fmt.Errorf("%d bytes after the prefix, which announces %d bytes of header, %d rows of %d numbers and %d bytes of failure", rest, header, rows, cols, failure)
	}
	if route > math.MaxInt32 || top > math.MaxInt32 {
		return fmt.Errorf("route %d or number of largest values %d out of range", route, top)
	}
	m.reset()
	data = data[wirePrefix:]
	if err := m.Header.Decode(data[:header]); err != nil {
		return err
	}
	data = data[header:]
	n := uint64(len(m.Header.Tokens))
	if numbers > 0 && rows != n && rows != uint64(len(m.Header.Outputs)) || numbers == 0 && rows+cols > 0 {
		return fmt.Errorf("activations of %d rows of %d numbers for a header of %d rows, %d of which want results", rows, cols, n, len(m.Header.Outputs))
	}
	if failed := flags&flagFailed != 0; failed != (failure > 0) || failed && numbers > 0 {
		return fmt.Errorf("flags %#x, with %d bytes of failure and %d numbers", flags, failure, numbers)
	}
	if failure > 0 {
		m.Failure = new(Error)
		if err := m.Failure.parse(data); err != nil {
			return err
		}
	}
	if numbers > 0 {
		if uint64(len(m.Input)) < numbers {
			m.Input = make([]float32, numbers)
		}
		copy(bytesOf(m.Input[:numbers]), data)
		m.x = kernels.Tensor{Rows: int(rows), Cols: int(cols), Type: kernels.F32}
	}
	m.bare = numbers == 0
	m.Number, m.Route = number, int(route)
	m.Want = Want{Values: flags&flagValues != 0, Best: flags&flagBest != 0, Top: int(top)}
	m.Seal()
	return nil
}

// remote is the cause of a failure in another process, of which only the text is known.
type remote string

// Error implements error.
func (e remote) Error() string { return string(e) }

// append appends the encoded failure.
func (e *Error) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(e.Stage))
	for _, text := range [...]string{e.Layers, e.Layer, e.Device, e.Err.Error()} {
		text = text[:min(len(text), mostFailure)]
		to = binary.LittleEndian.AppendUint32(to, uint32(len(text)))
		to = append(to, text...)
	}
	return to
}

// parse decodes a failure that append has encoded.
func (e *Error) parse(data []byte) error {
	if len(data) < 4 {
		return errors.New("a failure without a stage number")
	}
	number := binary.LittleEndian.Uint32(data)
	if number > math.MaxInt32 {
		return fmt.Errorf("a failure of stage %d", number)
	}
	var texts [4]string
	data = data[4:]
	for i := range texts {
		if len(data) < 4 {
			return errors.New("a failure that is cut short")
		}
		n := binary.LittleEndian.Uint32(data)
		if data = data[4:]; n > mostFailure || int(n) > len(data) {
			return fmt.Errorf("a failure with a text of %d bytes", n)
		}
		texts[i], data = string(data[:n]), data[n:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes after a failure", len(data))
	}
	*e = Error{Stage: int(number), Layers: texts[0], Layer: texts[1], Device: texts[2], Err: remote(texts[3])}
	return nil
}
