package kernels

import (
	"fmt"
	"runtime/debug"
)

// Matrix is a weight in the host's memory, as a file stores it: Rows rows of
// Cols elements of Type, row after row.
type Matrix struct {
	Name string // for errors
	Type Type
	Rows int
	Cols int
	Data []byte // read only; not needed after Pack

	// Owner is what Data belongs to where that isn't memory of the program's own:
	// a mapped file. It is nil otherwise.
	Owner Owner
}

// Owner lends memory that may be taken away: a file that can be closed, cut short
// or rewritten.
type Owner interface {
	// Use calls use, during which the memory stays mapped, and returns its error.
	// An owner that is closed returns an error instead, and one whose memory has
	// changed returns an error as well.
	Use(use func() error) error
}

// Forgetter is an Owner that can give memory back while it stays mapped, as a file's can
// be read again.
type Forgetter interface {
	Owner

	// Forget says that data, which belongs to the owner, has been read. It is called
	// within Use.
	Forget(data []byte)
}

// Pack has pack read m.Data, under the care of its owner. If the owner finds
// fault with the memory after that, the weight is freed. The error names the
// matrix. An owner that can forget the data is told to. It is for backends, whose Pack it is.
func (m *Matrix) Pack(pack func() (Weight, error)) (Weight, error) {
	var w Weight
	use := func() (err error) {
		w, err = pack()
		if o, ok := m.Owner.(Forgetter); ok {
			o.Forget(m.Data)
		}
		return err
	}
	var err error
	if m.Owner != nil {
		err = m.Owner.Use(use)
	} else {
		err = use()
	}
	if err != nil {
		if w != nil {
			_ = w.Free() // the first error tells more
		}
		return nil, fmt.Errorf("weight %s: %w", m.Name, err)
	}
	return w, nil
}

// Guard calls read, which reads a matrix's Data on this goroutine. Where the
// memory can't be read, such as that of a mapped file that was cut short, it
// returns an error; the program goes on.
func Guard(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("its data can't be read at address %#x: was its file cut short or its drive removed?", r.Addr())
		default:
			err = fmt.Errorf("packing it failed: %v", r)
		}
	}()
	read()
	return nil
}
