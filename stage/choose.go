package stage

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// results is the host's memory for the results of one slot.
type results struct {
	values  []float32 // nil if the host can read the last stage's output
	chosen  []int32
	columns []int32
	top     []float32
}

// allocateResults allocates the memory for the results of the next slot, whose last layer
// writes to output.
func (f *buffers) allocateResults(output device.Buffer, s size, c Config) error {
	var r results
	var mem [3][]byte
	for i, bytes := range []int64{s.output, int64(c.MaxRows) * 4, int64(c.MaxOutputs) * int64(c.MaxTop) * 8} {
		if bytes == 0 || i == 0 && output.Bytes() != nil {
			continue
		}
		var err error
		if mem[i], err = f.hostMemory(output.Device(), bytes); err != nil {
			return err
		}
	}
	if mem[0] != nil {
		r.values = floats(mem[0])
	}
	if mem[1] != nil {
		r.chosen = ints(mem[1])
	}
	if half := len(mem[2]) / 2; half > 0 {
		r.columns, r.top = ints(mem[2][:half]), floats(mem[2][half:])
	}
	f.results = append(f.results, r)
	return nil
}

// deliver enqueues copies to the host's memory: of the last stage's output what the batch's
// Want asks for, and of another stage's output everything if Position.Host is set. The
// selection of results uses the workspace, which the layers don't need any more at that
// point of the queue.
func (f *buffers) deliver(q kernels.Queue, b *Batch, x kernels.Tensor) error {
	if f.host != nil {
		b.host = f.host[b.Slot][:x.Rows*x.Cols]
		if len(b.host) > 0 {
			q.Download(bytesOf(b.host), x.Buf, x.Off)
		}
	}
	if !f.last || x.Bytes() == 0 {
		return nil
	}
	r, all := &f.results[b.Slot], b.Want.all()
	if b.Want.Best {
		best := kernels.Tensor{Buf: f.work.Buf, Rows: x.Rows, Cols: 1, Type: kernels.I32}
		q.ArgMax(best, x)
		b.chosen = r.chosen[:x.Rows]
		q.Download(bytesOf(b.chosen), best.Buf, best.Off)
	}
	if k := b.Want.Top; k > 0 {
		switch n := x.Rows * k; {
		case f.topK == nil:
			all = true
		case k > len(r.columns) || n > len(r.columns): // n may overflow
			return fmt.Errorf("a batch wants the %d largest values of each of %d rows: the stage has memory for %d values", k, x.Rows, len(r.columns))
		default:
			columns := kernels.Tensor{Buf: f.work.Buf, Off: int64(len(r.chosen)) * 4, Rows: x.Rows, Cols: k, Type: kernels.I32}
			values := kernels.Tensor{Buf: f.work.Buf, Off: columns.Off + columns.Bytes(), Rows: x.Rows, Cols: k, Type: kernels.F32}
			f.topK.TopK(columns, values, x)
			b.columns, b.top = r.columns[:n], r.top[:n]
			q.Download(bytesOf(b.columns), columns.Buf, columns.Off)
			q.Download(bytesOf(b.top), values.Buf, values.Off)
		}
	}
	switch {
	case !all:
	case r.values == nil:
		b.values = floats(x.Buf.Bytes()[x.Off : x.Off+x.Bytes()])
	default:
		b.values = r.values[:x.Rows*x.Cols]
		q.Download(bytesOf(b.values), x.Buf, x.Off)
	}
	return nil
}

// floats returns the memory of b as float32s. Device memory is aligned to 64 bytes.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// ints returns the memory of b as int32s.
func ints(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// bytesOf returns the memory of v as bytes. v must not be empty.
func bytesOf[T float32 | int32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*4)
}
