package gguf

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/leat-dev/leat/kernels"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []uint64 // 1 to 4 dimensions, the fastest-varying first: columns and then rows for a matrix
	Offset uint64   // the position of the data, in bytes from the start of the file
	Size   uint64   // the size of the data in bytes

	file *File
}

// Read returns a copy of the tensor's data. After the file's Close, the error wraps ErrClosed.
func (t Tensor) Read() (data []byte, err error) {
	err = t.file.Use(func() error {
		data = make([]byte, t.Size)
		return t.file.bytes.readAt(data, int64(t.Offset))
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Matrix returns the tensor as a matrix with the given shape, which the op set can pack. The
// data is not read until then. ok is false if the op set doesn't support the tensor's type.
// Packing the matrix after the file's Close is an error that wraps ErrClosed.
func (t Tensor) Matrix(rows, cols int) (m kernels.Matrix, ok bool) {
	m = kernels.Matrix{Name: t.Name, Rows: rows, Cols: cols}
	if m.Type, ok = t.Type.Kernel(); !ok {
		return m, false
	}
	m.Owner = t.file
	if t.file.bytes.acquire() == nil {
		end := t.Offset + t.Size
		m.Data = t.file.bytes.data[t.Offset:end:end]
		_ = t.file.bytes.release() // ignore the error, as packing the matrix reports it
	}
	return m, true
}

// HasShape reports whether the tensor has these dimensions, the fastest-varying first. As in
// ggml, dimensions of 1 at the end are ignored on both sides: a vector of n elements is also a
// matrix of n by 1.
func (t Tensor) HasShape(dims ...uint64) bool {
	return slices.Equal(significant(t.Dims), significant(dims))
}

// significant returns dims without dimensions of 1 at the end, but at least one dimension.
func significant(dims []uint64) []uint64 {
	for len(dims) > 1 && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	return dims
}

// String returns the name, type and dimensions on one line.
func (t Tensor) String() string {
	return fmt.Sprintf("%s %v %v", Quote(t.Name), t.Type, t.Dims)
}

// maxDims is the maximum number of dimensions, as in ggml.
const maxDims = 4

// dataBytes returns the size in bytes of the data of a tensor with that type and shape.
func dataBytes(t Type, dims []uint64) (uint64, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	total := uint64(1)
	for _, d := range dims {
		if d == 0 {
			return 0, fmt.Errorf("a dimension of %v is 0", dims)
		}
		hi, lo := bits.Mul64(total, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("the dimensions %v have more elements than 64 bits can count", dims)
		}
		total = lo
	}
	elems, bytes := t.Block()
	if dims[0]%elems != 0 {
		return 0, fmt.Errorf("a row of %d elements is not a whole number of %v blocks of %d", dims[0], t, elems)
	}
	hi, lo := bits.Mul64(total/elems, bytes)
	if hi != 0 || lo > math.MaxInt64 {
		return 0, fmt.Errorf("the dimensions %v of %v take more bytes than 64 bits can count", dims, t)
	}
	return lo, nil
}

// locate sets a tensor's Size, and changes its Offset, which is relative to start, the start of
// the tensor data, to be relative to the start of the file. It checks that the data is within
// the file.
func (f *File) locate(t *Tensor, start uint64) error {
	size, err := dataBytes(t.Type, t.Dims)
	if err != nil {
		return err
	}
	if t.Offset%uint64(f.alignment) != 0 {
		return fmt.Errorf("its offset %d is not a multiple of the alignment, %d", t.Offset, f.alignment)
	}
	total := uint64(f.bytes.size)
	if start > total || t.Offset > total-start || size > total-start-t.Offset {
		return fmt.Errorf("its data, %d bytes at %d in the tensor data that starts at %d, extends beyond the file's %d bytes: the file is cut short or damaged",
			size, t.Offset, start, total)
	}
	t.Offset += start
	t.Size = size
	return nil
}

// checkNeighbours returns an error if tensors overlap, or if bytes of the tensor data belong to
// no tensor. Files are written with one tensor after the other, so a gap larger than the
// alignment means that a tensor's type, shape or offset was damaged.
func (f *File) checkNeighbours(start uint64) error {
	if len(f.tensors) == 0 {
		return nil
	}
	order := make([]*Tensor, len(f.tensors))
	for i := range order {
		order[i] = &f.tensors[i]
	}
	slices.SortFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	if first := order[0]; first.Offset != start {
		return fmt.Errorf("tensor %s is the first in the tensor data, but begins %d bytes after its start: the file is damaged",
			Quote(first.Name), first.Offset-start)
	}
	for i, b := range order[1:] {
		a := order[i]
		end := a.Offset + a.Size
		switch {
		case end > b.Offset:
			return fmt.Errorf("tensors %s and %s overlap: %d bytes at %d, and %d bytes at %d",
				Quote(a.Name), Quote(b.Name), a.Size, a.Offset, b.Size, b.Offset)
		case b.Offset-end >= uint64(f.alignment):
			return fmt.Errorf("tensor %s has %d bytes as %v %v, with a gap of %d bytes before %s: its type, its shape or an offset is damaged",
				Quote(a.Name), a.Size, a.Type, a.Dims, b.Offset-end, Quote(b.Name))
		}
	}
	last := order[len(order)-1]
	if behind := uint64(f.bytes.size) - last.Offset - last.Size; behind >= uint64(f.alignment) {
		return fmt.Errorf("tensor %s, the last, has %d bytes as %v %v, but the file has %d more: its type or shape is damaged, or something was appended to the file",
			Quote(last.Name), last.Size, last.Type, last.Dims, behind)
	}
	return nil
}
