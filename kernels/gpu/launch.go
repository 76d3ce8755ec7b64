package gpu

import (
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// threads is how many threads a block of every kernel has.
const threads = 256

// launch enqueues a kernel over x·y·z blocks. Its parameters p lie in the queue,
// where the launcher copies them from.
func launch[P any](q *queue, f device.Function, p *P, x, y, z int) {
	if x == 0 {
		return
	}
	q.Launch(f, device.Grid{X: uint32(x), Y: uint32(y), Z: uint32(z), Threads: threads},
		unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
}

// ceil is n/each, rounded up.
func ceil(n, each int) int { return (n + each - 1) / each }
