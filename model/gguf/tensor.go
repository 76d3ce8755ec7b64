package gguf

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []uint64 // 1 to 4, the fastest first: a matrix is columns, rows
	Offset uint64   // of Data, from the file's start, in bytes
	Data   []byte   // the mapped file itself: read only, valid until Close
}

// String returns the name, type and shape on one line.
func (t Tensor) String() string {
	return fmt.Sprintf("%s %v %v", quote(t.Name), t.Type, t.Dims)
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
	total := uint64(len(f.data))
	if start > total || t.Offset > total-start || size > total-start-t.Offset {
		return fmt.Errorf("its data, %d bytes at %d in the tensor data that starts at %d, lies beyond the file's %d bytes: the file is cut short or damaged",
			size, t.Offset, start, total)
	}
	t.Offset += start
	end := t.Offset + size
	t.Data = f.data[t.Offset:end:end]
	return nil
}

// checkOverlaps refuses two tensors that share bytes.
func (f *File) checkOverlaps() error {
	order := make([]int32, len(f.tensors))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Compare(f.tensors[a].Offset, f.tensors[b].Offset)
	})
	for i := 1; i < len(order); i++ {
		a, b := &f.tensors[order[i-1]], &f.tensors[order[i]]
		if a.Offset+uint64(len(a.Data)) > b.Offset {
			return fmt.Errorf("tensors %s and %s overlap: %d bytes at %d, and %d bytes at %d",
				quote(a.Name), quote(b.Name), len(a.Data), a.Offset, len(b.Data), b.Offset)
		}
	}
	return nil
}
