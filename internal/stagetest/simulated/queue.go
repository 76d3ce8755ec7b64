package simulated

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// arithmetic is the op set. It has only ArgMax, which a stage needs; simulated layers need no ops.
type arithmetic struct{}

func (arithmetic) Kind() device.Kind { return kind }

func (arithmetic) NewQueue(d device.Device) (kernels.Queue, error) {
	return &queue{device: d.(*simulated)}, nil
}

func (arithmetic) WeightBytes(kernels.Type, int, int) (int64, error) { return 0, nil }
func (arithmetic) CacheBytes(kernels.CacheSpec) (int64, error)       { return 0, nil }

func (arithmetic) WorkspaceBytes(device.Info, int, int) (int64, error) { return 0, nil }

// queue is synchronous: each operation is done when it is enqueued.
type queue struct {
	kernels.Queue // the ops, which are nil
	device        *simulated
	err           error
}

func (q *queue) Device() device.Device  { return q.device }
func (q *queue) Begin()                 { q.device.turn <- struct{}{} }
func (q *queue) End()                   { <-q.device.turn }
func (q *queue) Err() error             { return q.err }
func (q *queue) Reserve(int, int) error { return nil }
func (q *queue) Close() error           { return q.err }

func (q *queue) Upload(dst device.Buffer, offset int64, src []byte) {
	copy(dst.Bytes()[offset:], src)
}

func (q *queue) Download(dst []byte, src device.Buffer, offset int64) {
	copy(dst, src.Bytes()[offset:])
}

// ArgMax takes no simulated time. The logits must not be NaN.
func (q *queue) ArgMax(dst, x kernels.Tensor) {
	values, best := floats(x), words[int32](dst.Buf.Bytes()[dst.Off:][:dst.Bytes()])
	for row := range best {
		own := values[row*x.Cols:][:x.Cols]
		best[row] = int32(slices.Index(own, slices.Max(own)))
	}
}

func (q *queue) After(e device.Event) {
	if err := e.Wait(context.Background()); err != nil {
		q.fail(err)
	}
}

func (q *queue) NewEvent() (device.Event, error) { return new(event), nil }

func (q *queue) Record(e device.Event) {
	e.(*event).set(q.err)
	q.err = nil
}

func (q *queue) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// occupy keeps the device busy for the duration d.
func (q *queue) occupy(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// event is always done, because its queue is synchronous.
type event struct {
	mu  sync.Mutex
	err error
}

func (e *event) set(err error) {
	e.mu.Lock()
	e.err = err
	e.mu.Unlock()
}

func (e *event) Wait(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Work calls work on another goroutine, like a device's workers, and waits for it. A panic of that
// goroutine becomes the queue's error.
func Work(q kernels.Queue, work func()) {
	ended := make(chan error)
	go func() {
		var err error
		defer func() {
			if value := recover(); value != nil {
				err = fmt.Errorf("panic in a worker: %v", value)
			}
			ended <- err
		}()
		work()
	}()
	if err := <-ended; err != nil {
		q.(*queue).fail(err)
	}
}
