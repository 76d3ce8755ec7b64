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
	Dims   []uint64 // 1 to 4, the fastest first: a matrix is columns, rows
	Offset uint64   // of its data, from the file's start, in bytes
	Size   uint64   // of its data, in bytes

	file *File
}

// Read returns a copy of the tensor's data. After the file's Close it is
// ErrClosed.
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

// Matrix returns the tensor as a matrix of that shape for the op set to pack,
// which reads the file itself. ok is false for a type that Leat can list but not
// compute with. After the file's Close, packing it is ErrClosed.
func (t Tensor) Matrix(rows, cols int) (m kernels.Matrix, ok bool) {
	m = kernels.Matrix{Name: t.Name, Rows: rows, Cols: cols}
	if m.Type, ok = t.Type.Kernel(); !ok {
		return m, false
	}
	m.Owner = t.file
	if t.file.bytes.acquire() == nil {
		end := t.Offset + t.Size
		m.Data = t.file.bytes.data[t.Offset:end:end]
		_ = t.file.bytes.release() // whoever packs the matrix finds out
	}
	return m, true
}

// HasShape says whether the tensor has these dimensions, the fastest first. Ones
// at the end don't count, on either side: to ggml, a vector of n is n by 1 too.
func (t Tensor) HasShape(dims ...uint64) bool {
	return slices.Equal(significant(t.Dims), significant(dims))
}

func significant(dims []uint64) []uint64 {
	for len(dims) > 1 && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	return dims
}

// String returns the name, type and shape on one line.
func (t Tensor) String() string {
	return fmt.Sprintf("%s %v %v", Quote(t.Name), t.Type, t.Dims)
}

// maxDims is the most dimensions that ggml has.
const maxDims = 4

// dataBytes returns what a tensor of that type and shape takes.
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

// place finds a tensor's bytes. Its Offset is still counted from start, where
// the file's tensor data begins.
func (f *File) place(t *Tensor, start uint64) error {
	size, err := dataBytes(t.Type, t.Dims)
	if err != nil {
		return err
	}
	if t.Offset%uint64(f.alignment) != 0 {
		return fmt.Errorf("its offset %d is not a multiple of the alignment, %d", t.Offset, f.alignment)
	}
	total := uint64(f.bytes.size)
	if start > total || t.Offset > total-start || size > total-start-t.Offset {
		return fmt.Errorf("its data, %d bytes at %d in the tensor data that starts at %d, lies beyond the file's %d bytes: the file is cut short or damaged",
			size, t.Offset, start, total)
	}
	t.Offset += start
	t.Size = size
	return nil
}

// checkNeighbours refuses tensors that share bytes, and bytes of the tensor data
// that belong to none: writers put one tensor behind the other, so that a hole
// shows that a tensor's type or shape isn't what it was when it was written.
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
		return fmt.Errorf("tensor %s is the first of the tensor data, and begins %d bytes behind its start: the file is damaged",
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
			return fmt.Errorf("tensor %s takes %d bytes as %v %v, and leaves a gap of %d before %s: its type, its shape or an offset is damaged",
				Quote(a.Name), a.Size, a.Type, a.Dims, b.Offset-end, Quote(b.Name))
		}
	}
	last := order[len(order)-1]
	if behind := uint64(f.bytes.size) - last.Offset - last.Size; behind >= uint64(f.alignment) {
		return fmt.Errorf("tensor %s, the last, takes %d bytes as %v %v, and the file has %d more: its type or shape is damaged, or something was appended to the file",
			Quote(last.Name), last.Size, last.Type, last.Dims, behind)
	}
	return nil
}
