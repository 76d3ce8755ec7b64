package cuda

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// mostParams is how many bytes of parameters a kernel may have on every GPU.
const mostParams = 4 << 10

// launch is what a queue keeps for launching kernels. The driver finds the rest by
// the addresses in extra, so it never moves.
type launch struct {
	params [mostParams]byte
	bytes  uintptr
	extra  [5]uintptr
}

func (l *launch) prepare() {
	l.extra = [...]uintptr{
		launchParams, uintptr(unsafe.Pointer(&l.params)),
		launchParamBytes, uintptr(unsafe.Pointer(&l.bytes)),
		launchEnd,
	}
}

// Launch enqueues a kernel of the queue's GPU.
func (q *Queue) Launch(f device.Function, g device.Grid, params []byte) {
	if !q.ready("a launch") {
		return
	}
	own, ok := f.(*Function)
	switch {
	case !ok || own.device != q.device:
		q.Fail(fmt.Errorf("%s: a launch of a function that isn't this GPU's", q.device.name))
		return
	case len(params) > mostParams:
		q.Fail(fmt.Errorf("%s: a launch of %s with %d bytes of parameters: %d are the most", q.device.name, own.name, len(params), mostParams))
		return
	case g.Threads > own.threads:
		q.Fail(fmt.Errorf("%s: a launch of %s in blocks of %d threads: it runs in %d at most", q.device.name, own.name, g.Threads, own.threads))
		return
	case g.X == 0 || g.Y == 0 || g.Z == 0 || g.Threads == 0:
		return
	}
	q.mark()
	q.bytes = uintptr(copy(q.params[:], params))
	q.dirty = true
	code := q.visit.call(cuLaunchKernel, own.handle,
		uintptr(g.X), uintptr(g.Y), uintptr(g.Z), uintptr(g.Threads), 1, 1,
		0, q.stream, 0, uintptr(unsafe.Pointer(&q.extra)))
	if code != success {
		q.Fail(q.device.note(q.device.driver.fault(q.device.name, cuLaunchKernel, code, own.name)))
		return
	}
	q.wrote = true
}
