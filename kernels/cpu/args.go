package cpu

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// args turns an op's arguments into slices, checking each against its buffer.
// It keeps the first thing that is wrong; what it returns after that is empty.
// An op looks at err once, before it works.
type args struct {
	op  string
	err error
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(a.op+": "+format, v...)
	}
}

// ready hands a wrong argument to the queue, and says whether to go on.
func (q *queue) ready(a *args) bool {
	if a.err != nil {
		q.Fail(a.err)
	}
	return a.err == nil
}

// memory returns the bytes of a buffer from offset on.
func (a *args) memory(name string, b device.Buffer, offset int64) []byte {
	if b == nil {
		a.fail("%s has no buffer", name)
		return nil
	}
	mem := b.Bytes()
	switch {
	case mem == nil:
		a.fail("%s lies in a buffer that the CPU can't reach: freed, or of another kind of device", name)
		return nil
	case offset < 0 || offset%4 != 0 || offset > int64(len(mem)):
		a.fail("%s begins at byte %d of a buffer of %d", name, offset, len(mem))
		return nil
	}
	return mem[offset:]
}

// elements returns the memory of a tensor that must be of the type and shape
// given.
func (a *args) elements(name string, t kernels.Tensor, as kernels.Type, rows, cols int) []byte {
	if t.Type != as {
		a.fail("%s is of %v, it must be %v", name, t.Type, as)
		return nil
	}
	if t.Rows < 0 || t.Cols <= 0 {
		a.fail("%s is of shape [%d, %d]", name, t.Rows, t.Cols)
		return nil
	}
	if t.Rows != rows || t.Cols != cols {
		a.fail("%s is of shape [%d, %d], it must be [%d, %d]", name, t.Rows, t.Cols, rows, cols)
		return nil
	}
	mem := a.memory(name, t.Buf, t.Off)
	if mem == nil {
		return nil
	}
	if t.Rows > len(mem)/4/t.Cols {
		a.fail("%s of shape [%d, %d] at byte %d is larger than its buffer of %d", name, t.Rows, t.Cols, t.Off, len(mem)+int(t.Off))
		return nil
	}
	return mem[:4*t.Rows*t.Cols]
}

// floats returns the elements of an F32 tensor of that shape.
func (a *args) floats(name string, t kernels.Tensor, rows, cols int) []float32 {
	return float32s(a.elements(name, t, kernels.F32, rows, cols))
}

// ints returns the elements of an I32 tensor of that shape.
func (a *args) ints(name string, t kernels.Tensor, rows, cols int) []int32 {
	return int32s(a.elements(name, t, kernels.I32, rows, cols))
}

// header is a batch's header, as kernels.Header lays it out.
type header struct {
	tokens, positions, tables, outputs, pages []int32
	base                                      int // of the page numbers
}

// page returns the number of the page that holds block b of a row's positions,
// in a header that args.page has passed.
func (h *header) page(row, b int) int { return h.base + int(h.pages[int(h.tables[row])+b]) }

// header reads the header of a batch of n rows.
func (a *args) header(r kernels.Rows, n int) (h header) {
	if r.N != n {
		a.fail("the header is of %d rows, the tensor of %d", r.N, n)
		return h
	}
	mem := a.memory("the header", r.Buf, 0)
	if mem == nil {
		return h
	}
	if r.Base < 0 {
		a.fail("page numbers begin at %d", r.Base)
		return h
	}
	h.base = r.Base
	most := len(mem) / 4
	if r.N < 0 || r.Outputs < 0 || r.Pages < 0 || r.N > most || r.Outputs > most || r.Pages > most ||
		kernels.HeaderBytes(r.N, r.Outputs, r.Pages) > int64(len(mem)) {
		a.fail("a header of %d rows, %d outputs and %d table words is larger than its buffer of %d bytes", r.N, r.Outputs, r.Pages, len(mem))
		return h
	}
	w := int32s(mem)
	if int(w[0]) != r.N || int(w[1]) != r.Outputs || int(w[2]) != r.Pages {
		a.fail("the header holds %d rows, %d outputs and %d table words, the batch says %d, %d and %d", w[0], w[1], w[2], r.N, r.Outputs, r.Pages)
		return h
	}
	w = w[kernels.HeaderPrefix:]
	for _, part := range [...]struct {
		to *[]int32
		n  int
	}{{&h.tokens, r.N}, {&h.positions, r.N}, {&h.tables, r.N}, {&h.outputs, r.Outputs}, {&h.pages, r.Pages}} {
		*part.to, w = w[:part.n:part.n], w[part.n:]
	}
	return h
}

// page fails where block b of a row's positions isn't on a page of the cache: the
// table is too short, or the cache doesn't have that page.
func (a *args) page(h *header, row, b, pages int) {
	at := int(h.tables[row]) + b
	if h.tables[row] < 0 || at >= len(h.pages) {
		a.fail("row %d at position %d needs word %d of the page tables, which have %d", row, h.positions[row], at, len(h.pages))
		return
	}
	switch p := int(h.pages[at]); {
	case p < 0, h.base == 0 && p >= pages:
		a.fail("row %d at position %d is on page %d of a cache of %d", row, h.positions[row], p, pages)
	case p >= pages-h.base:
		a.fail("row %d at position %d is on page %d from page %d on, of a cache of %d", row, h.positions[row], p, h.base, pages)
	}
}

// overlap says whether two slices share memory.
func overlap[T, U float32 | int32](a []T, b []U) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	a0, b0 := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return a0 < b0+4*uintptr(len(b)) && b0 < a0+4*uintptr(len(a))
}

// The targets that Leat builds for are little-endian, as the header and the
// packed forms are. Buffers are aligned to 64 bytes.

func float32s(b []byte) []float32 { return elementsOf[float32](b) }

func int32s(b []byte) []int32 { return elementsOf[int32](b) }

func uint16s(b []byte) []uint16 { return elementsOf[uint16](b) }

func elementsOf[T float32 | int32 | uint16 | uint64](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
