package driver

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

// Launch enqueues a run of a kernel, which must be of the queue's GPU.
func (q *Queue) Launch(f device.Function, g device.Grid, params []byte) {
	if !q.ready("a launch") {
		return
	}
	own, ok := f.(*Function)
	switch {
	case !ok || own.device != q.device:
		q.Fail(fmt.Errorf("%s: the function to launch is not one of this GPU", q.device.name))
		return
	case len(params) > MostParams:
		q.Fail(fmt.Errorf("%s: launch of %s with %d bytes of parameters: the maximum is %d", q.device.name, own.name, len(params), MostParams))
		return
	case g.Threads > own.threads:
		q.Fail(fmt.Errorf("%s: launch of %s in blocks of %d threads: the kernel's maximum is %d", q.device.name, own.name, g.Threads, own.threads))
		return
	case g.X == 0 || g.Y == 0 || g.Z == 0 || g.Threads == 0:
		return
	}
	q.mark()
	q.dirty = true
	if failed := q.visit.calls.Launch(own.handle, g, q.stream, params); failed != nil {
		failed.Detail = own.name
		q.Fail(q.device.check(failed))
		return
	}
	q.wrote = true
}
