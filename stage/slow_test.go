package stage_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// slow is a device that works by itself, as a GPU does: its queues have goroutines
// of their own, the host can't reach its memory, and what it has yet to read or
// write shows in what comes out.
type slow struct {
	name         string
	held, pinned atomic.Int64
	working      atomic.Int64 // operations that are enqueued
	early        atomic.Int64 // buffers freed while there were some
	lost         atomic.Bool  // every operation fails
}

var errLost = errors.New("the device is lost")

func (d *slow) Info() device.Info { return device.Info{Name: d.name, Kind: device.ROCm} }
func (d *slow) Allocated() int64  { return d.held.Load() }
func (d *slow) Close() error      { return nil }

func (d *slow) Alloc(bytes int64) (device.Buffer, error) {
	d.held.Add(bytes)
	return &slowBuffer{device: d, mem: make([]byte, bytes), counts: &d.held}, nil
}

func (d *slow) AllocHost(bytes int64) (device.Buffer, error) {
	d.pinned.Add(bytes)
	return &slowBuffer{device: d, mem: make([]byte, bytes), counts: &d.pinned, host: true}, nil
}

type slowBuffer struct {
	device *slow
	mem    []byte
	counts *atomic.Int64
	host   bool
}

func (b *slowBuffer) Device() device.Device { return b.device }
func (b *slowBuffer) Size() int64           { return int64(len(b.mem)) }

func (b *slowBuffer) Bytes() []byte {
	if b.host {
		return b.mem
	}
	return nil
}

func (b *slowBuffer) Free() error {
	if b.device.working.Load() > 0 {
		b.device.early.Add(1)
	}
	b.counts.Add(-int64(len(b.mem)))
	return nil
}

func (d *slow) NewQueue() (device.Queue, error) { return newSlowQueue(d), nil }

// slowQueue does one operation after the other on a goroutine.
type slowQueue struct {
	kernels.Queue // the other ops
	device        *slow
	ops           chan func()
	ended         chan struct{}
	began         time.Time // the goroutine's
	err           error     // the goroutine's
}

func newSlowQueue(d *slow) *slowQueue {
	q := &slowQueue{device: d, ops: make(chan func(), 1<<10), ended: make(chan struct{})}
	go func() {
		defer close(q.ended)
		for op := range q.ops {
			op()
			d.working.Add(-1)
		}
	}()
	return q
}

func (q *slowQueue) enqueue(op func()) {
	q.device.working.Add(1)
	q.ops <- op
}

// do enqueues what may fail, and is skipped on a queue that failed.
func (q *slowQueue) do(op func() error) {
	q.enqueue(func() {
		if q.device.lost.Load() && q.err == nil {
			q.err = errLost
		}
		if q.err == nil {
			q.err = op()
		}
	})
}

func (q *slowQueue) Device() device.Device  { return q.device }
func (q *slowQueue) Begin()                 { q.enqueue(func() { q.began = time.Now() }) }
func (q *slowQueue) End()                   {}
func (q *slowQueue) Err() error             { return nil }
func (q *slowQueue) Reserve(int, int) error { return nil }

func (q *slowQueue) Close() error {
	close(q.ops)
	<-q.ended
	return q.err
}

func (q *slowQueue) Upload(dst device.Buffer, offset int64, src []byte) {
	q.do(func() error {
		copy(dst.(*slowBuffer).mem[offset:], src)
		return nil
	})
}

func (q *slowQueue) Download(dst []byte, src device.Buffer, offset int64) {
	for i := range dst {
		dst[i] = 0x77 // until it is there
	}
	q.do(func() error {
		copy(dst, src.(*slowBuffer).mem[offset:])
		return nil
	})
}

func (q *slowQueue) ArgMax(dst, x kernels.Tensor) {
	q.do(func() error {
		to, from := slowInts(dst), slowFloats(x)
		for r := range to {
			best := 0
			row := from[r*x.Cols:][:x.Cols]
			for c, v := range row {
				if v > row[best] || row[best] != row[best] && v == v {
					best = c
				}
			}
			if row[best] != row[best] {
				best = -1
			}
			to[r] = int32(best)
		}
		return nil
	})
}

func (q *slowQueue) TopK(columns, values, x kernels.Tensor) {
	q.do(func() error {
		ids, largest, from := slowInts(columns), slowFloats(values), slowFloats(x)
		for r := range x.Rows {
			row := from[r*x.Cols:][:x.Cols]
			var order []int32
			for c, v := range row {
				if v == v {
					order = append(order, int32(c))
				}
			}
			slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(row[b], row[a]) })
			for i := range columns.Cols {
				id, v := int32(-1), float32(math.Inf(-1))
				if i < len(order) {
					id, v = order[i], row[order[i]]
				}
				ids[r*columns.Cols+i], largest[r*columns.Cols+i] = id, v
			}
		}
		return nil
	})
}

func (q *slowQueue) After(e device.Event) {
	q.do(func() error { return e.Wait(context.Background()) })
}

func (q *slowQueue) NewEvent() (device.Event, error) {
	done := make(chan struct{})
	close(done)
	return &slowEvent{done: done}, nil
}

func (q *slowQueue) Record(e device.Event) {
	own, done := e.(*slowEvent), make(chan struct{})
	own.mu.Lock()
	own.done = done
	own.mu.Unlock()
	q.enqueue(func() {
		own.mu.Lock()
		own.err, own.began, own.ended = q.err, q.began, time.Now()
		own.mu.Unlock()
		q.err = nil
		close(done)
	})
}

type slowEvent struct {
	mu           sync.Mutex
	done         chan struct{}
	err          error
	began, ended time.Time
}

func (e *slowEvent) Wait(ctx context.Context) error {
	e.mu.Lock()
	done := e.done
	e.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *slowEvent) Span() (began, ended time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began, e.ended
}

// TransferTo implements device.Peer: another slow device copies when its queue gets
// there, the host when the activations are ready.
func (d *slow) TransferTo(to device.Queue) (device.Transfer, bool, error) {
	if q, ok := to.(*slowQueue); ok {
		return slowCopy{q}, true, nil
	}
	return slowFetch{}, true, nil
}

func (d *slow) TransferFrom(_ device.Device, to device.Queue) (device.Transfer, bool, error) {
	return slowCopy{to.(*slowQueue)}, true, nil
}

type slowCopy struct{ q *slowQueue }

func (c slowCopy) Move(_ context.Context, into, src device.Buffer, n int64, ready device.Event) (device.Buffer, error) {
	c.q.After(ready)
	c.q.do(func() error {
		from := src.Bytes()
		if b, ok := src.(*slowBuffer); ok {
			from = b.mem
		}
		copy(into.(*slowBuffer).mem[:n], from)
		return nil
	})
	return into, nil
}

func (slowCopy) InPlace() bool { return false }
func (slowCopy) Close() error  { return nil }

type slowFetch struct{}

func (slowFetch) Move(ctx context.Context, into, src device.Buffer, n int64, ready device.Event) (device.Buffer, error) {
	if err := ready.Wait(ctx); err != nil {
		return nil, err
	}
	copy(into.Bytes()[:n], src.(*slowBuffer).mem)
	return into, nil
}

func (slowFetch) InPlace() bool { return false }
func (slowFetch) Close() error  { return nil }

type slowKernels struct{ kernels.Sizes }

func (slowKernels) Kind() device.Kind { return device.ROCm }
func (slowKernels) NewQueue(d device.Device) (kernels.Queue, error) {
	return newSlowQueue(d.(*slow)), nil
}
func (slowKernels) WorkspaceBytes(device.Info, int, int) (int64, error) { return 0, nil }

func init() { kernels.Register(slowKernels{}) }

func slowFloats(t kernels.Tensor) []float32 {
	if b, ok := t.Buf.(*slowBuffer); ok {
		return slowView[float32](b.mem[t.Off:], t)
	}
	return slowView[float32](t.Buf.Bytes()[t.Off:], t)
}

func slowInts(t kernels.Tensor) []int32 {
	return slowView[int32](t.Buf.(*slowBuffer).mem[t.Off:], t)
}

func slowView[T float32 | int32](mem []byte, t kernels.Tensor) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), t.Rows*t.Cols)
}

// adds is a layer that takes its time and then adds 1 to what it got, or to the
// tokens where it is the first. It works on a slow device, when its queue gets
// there, and on a CPU at once.
type adds struct {
	name  string
	width int
	takes time.Duration

	broken   int32 // the device fails on a batch whose first token it is,
	unfit    int32 // the host
	unlikely int32 // after which a row is no number
	ends     int32 // the stage's goroutine

	closing func() // called by Close, if not nil
}

var (
	errBroken = errors.New("told to fail on the device")
	errUnfit  = errors.New("told to fail on the host")
)

func (l *adds) Name() string       { return l.name }
func (l *adds) Shape() stage.Shape { return stage.Shape{Width: l.width} }
func (l *adds) Close() error {
	if l.closing != nil {
		l.closing()
	}
	return nil
}
func (l *adds) Cost(device.Info, stage.Config) (packer.Cost, error) {
	return packer.Cost{}, nil
}
func (l *adds) Load(context.Context, kernels.Queue, stage.Config) (stage.Runner, error) {
	return l, nil
}

func (l *adds) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	tokens := slices.Clone(p.Header.Tokens)
	if tokens[0] == l.unfit && l.unfit != 0 {
		return errUnfit
	}
	if tokens[0] == l.ends && l.ends != 0 {
		runtime.Goexit()
	}
	work := func() error {
		<-time.After(l.takes)
		if tokens[0] == l.broken && l.broken != 0 {
			return errBroken
		}
		y := slowFloats(out)
		for row := range out.Rows {
			for col := range out.Cols {
				x := float32(int(tokens[row]) ^ col)
				if in.Buf != nil {
					x = slowFloats(in)[row*in.Cols+col]
				}
				if y[row*out.Cols+col] = x + 1; tokens[row] == l.unlikely && l.unlikely != 0 {
					y[row*out.Cols+col] = float32(math.NaN())
				}
			}
		}
		return nil
	}
	if s, ok := q.(*slowQueue); ok {
		s.do(work)
		return nil
	}
	return work()
}
