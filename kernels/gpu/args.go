package gpu

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// args turns an op's arguments into addresses, checking each against its buffer.
// It keeps the first thing that is wrong; what it returns after that is 0. An op
// looks at err once, before it launches.
type args struct {
	op     string
	device device.Device
	err    error
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

// mostElements is how many elements a tensor has at most: kernels count them in
// 32 bits, in blocks of 256 threads.
const mostElements = math.MaxInt32 - 255

// mostBlocks is how many blocks a grid has at most along Y and Z.
const mostBlocks = math.MaxUint16

// span is a stretch of the device's memory.
type span struct {
	at    uint64
	bytes int64
}

func (s span) overlaps(o span) bool {
	return s.bytes > 0 && o.bytes > 0 && s.at < o.at+uint64(o.bytes) && o.at < s.at+uint64(s.bytes)
}

// apart refuses a dst that lies over a part of another operand. On a GPU threads of
// other rows would read there what is written already, or not yet. The very same
// memory is another matter: each element is then read by the thread that writes it.
func (a *args) apart(dst span, name string, operand span) {
	if dst.at != operand.at && dst.overlaps(operand) {
		a.fail("dst lies over a part of %s", name)
	}
}

// memory returns a buffer's memory from offset on.
func (a *args) memory(name string, b device.Buffer, offset int64) span {
	if b == nil {
		a.fail("%s has no buffer", name)
		return span{}
	}
	at := address(b, a.device)
	switch size := b.Size(); {
	case at == 0:
		a.fail("%s lies in a buffer that %s can't reach: freed, or of another device", name, a.device.Info().Name)
	case offset < 0 || offset%4 != 0 || offset > size:
		a.fail("%s begins at byte %d of a buffer of %d", name, offset, size)
	default:
		return span{at + uint64(offset), size - offset}
	}
	return span{}
}

// address returns where a buffer lies on d, 0 if it isn't there.
func address(b device.Buffer, d device.Device) uint64 {
	if m, ok := b.(device.Addressable); ok && m.Device() == d {
		return m.Address()
	}
	return 0
}

// elements returns the memory of a tensor that must be of the type and shape
// given.
func (a *args) elements(name string, t kernels.Tensor, as kernels.Type, rows, cols int) span {
	if t.Type != as {
		a.fail("%s is of %v, it must be %v", name, t.Type, as)
		return span{}
	}
	if t.Rows < 0 || t.Cols <= 0 {
		a.fail("%s is of shape [%d, %d]", name, t.Rows, t.Cols)
		return span{}
	}
	if t.Rows != rows || t.Cols != cols {
		a.fail("%s is of shape [%d, %d], it must be [%d, %d]", name, t.Rows, t.Cols, rows, cols)
		return span{}
	}
	mem := a.memory(name, t.Buf, t.Off)
	switch {
	case mem.at == 0:
		return span{}
	case int64(t.Rows) > mem.bytes/4/int64(t.Cols):
		a.fail("%s of shape [%d, %d] at byte %d is larger than its buffer of %d", name, t.Rows, t.Cols, t.Off, mem.bytes+t.Off)
		return span{}
	case t.Cols > mostElements || t.Rows > mostElements/t.Cols:
		a.fail("%s of shape [%d, %d] has more than %d elements: use fewer rows a batch", name, t.Rows, t.Cols, mostElements)
		return span{}
	}
	return span{mem.at, t.Bytes()}
}

// floats returns the memory of an F32 tensor of that shape.
func (a *args) floats(name string, t kernels.Tensor, rows, cols int) span {
	return a.elements(name, t, kernels.F32, rows, cols)
}

// ints returns the memory of an I32 tensor of that shape.
func (a *args) ints(name string, t kernels.Tensor, rows, cols int) span {
	return a.elements(name, t, kernels.I32, rows, cols)
}

// header returns the address of the header of a batch of n rows. What it holds,
// only the kernels see: they compare its counts, and report what is wrong with
// the rest (see explain).
func (a *args) header(r kernels.Rows, n int) uint64 {
	if r.N != n {
		a.fail("the header is of %d rows, the tensor of %d", r.N, n)
		return 0
	}
	mem := a.memory("the header", r.Buf, 0)
	if mem.at == 0 {
		return 0
	}
	if r.Base < 0 {
		a.fail("page numbers begin at %d", r.Base)
		return 0
	}
	most := min(mem.bytes/4, math.MaxInt32)
	if r.N < 0 || r.Outputs < 0 || r.Pages < 0 || int64(r.N) > most || int64(r.Outputs) > most || int64(r.Pages) > most ||
		kernels.HeaderBytes(r.N, r.Outputs, r.Pages) > min(mem.bytes, 4*math.MaxInt32) {
		a.fail("a header of %d rows, %d outputs and %d table words is larger than its buffer of %d bytes", r.N, r.Outputs, r.Pages, mem.bytes)
		return 0
	}
	return mem.at
}

// base checks that a batch's first page is one of the cache's: the kernels add
// it to page numbers in 32 bits.
func (a *args) base(r kernels.Rows, pages int) int32 {
	if r.N > 0 && r.Base >= pages {
		a.fail("page numbers begin at %d, in a cache of %d", r.Base, pages)
		return 0
	}
	return int32(r.Base)
}

// weight returns a weight of this backend that lies on the device.
func (a *args) weight(name string, w kernels.Weight) (*weight, uint64) {
	v, ok := w.(*weight)
	if !ok || v == nil {
		a.fail("%s is not a weight of a GPU: it is %T", name, w)
		return nil, 0
	}
	if v.buf.Device() != a.device {
		a.fail("%s [%d, %d] of %v lies on %s, the op is on %s", name, v.rows, v.cols, v.typ, v.buf.Device().Info().Name, a.device.Info().Name)
		return nil, 0
	}
	at := address(v.buf, a.device)
	if at == 0 {
		a.fail("%s [%d, %d] of %v has been freed", name, v.rows, v.cols, v.typ)
		return nil, 0
	}
	return v, at
}

// vector returns a weight of one row that must have cols columns; cols < 0: any
// number.
func (a *args) vector(name string, w kernels.Weight, cols int) (v *weight, at uint64) {
	if v, at = a.weight(name, w); v == nil {
		return nil, 0
	}
	if !v.vector() || cols >= 0 && v.cols != cols {
		a.fail("%s is [%d, %d] of %v, it must be [1, %d] of F32, F16 or BF16", name, v.rows, v.cols, v.typ, cols)
		return nil, 0
	}
	return v, at
}

// cache returns a cache of this backend that lies on the device.
func (a *args) cache(c kernels.Cache) (*cache, uint64) {
	v, ok := c.(*cache)
	if !ok || v == nil {
		a.fail("the cache is not of a GPU: it is %T", c)
		return nil, 0
	}
	if v.buf.Device() != a.device {
		a.fail("the cache lies on %s, the op is on %s", v.buf.Device().Info().Name, a.device.Info().Name)
		return nil, 0
	}
	at := address(v.buf, a.device)
	if at == 0 {
		a.fail("the cache has been freed")
		return nil, 0
	}
	return v, at
}
