package stage

import (
	"unsafe"

	"github.com/leat-dev/leat/kernels"
)

// choose enqueues which column of each row of the results is the largest, into host
// memory that has room for the results themselves: a number a row comes over instead
// of all. The layers are done with their workspace by then, in the queue's order.
func (f *buffers) choose(q kernels.Queue, host []float32, x kernels.Tensor) []int32 {
	best := kernels.Tensor{Buf: f.work.Buf, Rows: x.Rows, Cols: 1, Type: kernels.I32}
	q.ArgMax(best, x)
	host = host[:x.Rows]
	q.Download(bytesOf(host), best.Buf, best.Off)
	return unsafe.Slice((*int32)(unsafe.Pointer(&host[0])), x.Rows)
}
