package calibrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
)

func TestMain(m *testing.M) {
	kernels.Register(fakeOps{})
	goleak.VerifyTestMain(m)
}

// fake is a device that only counts: what work would take moves its clock. It
// works like a GPU: what is enqueued runs when somebody waits for it.
type fake struct {
	rates   device.Rates  // of its products
	packing float64       // bytes a second
	wait    time.Duration // that each wait takes besides the work
	noise   func(run int) time.Duration
	memory  int64 // all that it has
	onWait  func(run int) error

	clock      time.Time
	runs       int // waits with work
	held, peak int64
	buffers    int
	visiting   bool
	queues     int
	pending    time.Duration
	ops        int // MatMuls enqueued
	broken     []string
}

func newFake(r device.Rates) *fake {
	return &fake{rates: r, packing: 1e9, memory: 64 << 20, clock: time.Unix(1e9, 0)}
}

func (f *fake) now() time.Time { return f.clock }

func (f *fake) complain(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

func (f *fake) Info() device.Info               { return device.Info{Name: "cuda:0", Kind: device.CUDA} }
func (f *fake) Allocated() int64                { return f.held }
func (f *fake) NewQueue() (device.Queue, error) { return nil, errors.New("ask the op set") }
func (f *fake) Close() error                    { return nil }
func (f *fake) Alloc(n int64) (device.Buffer, error) {
	if n > f.memory-f.held {
		return nil, fmt.Errorf("cuda:0: can't allocate %d bytes", n)
	}
	f.held += n
	f.peak = max(f.peak, f.held)
	f.buffers++
	return &fakeBuffer{f, n, false}, nil
}

type fakeBuffer struct {
	*fake
	size  int64
	freed bool
}

func (b *fakeBuffer) Device() device.Device { return b.fake }
func (b *fakeBuffer) Size() int64           { return b.size }
func (b *fakeBuffer) Bytes() []byte         { return nil }
func (b *fakeBuffer) Free() error {
	if b.fake.pending > 0 {
		b.complain("a buffer is freed that work is to use")
	}
	if !b.freed {
		b.held -= b.size
		b.buffers--
	}
	b.freed = true
	return nil
}

// fakeOps is the op set of the fake, as package kernels asks for it.
type fakeOps struct{ kernels.Backend }

func (fakeOps) Kind() device.Kind { return device.CUDA }
func (fakeOps) NewQueue(d device.Device) (kernels.Queue, error) {
	d.(*fake).queues++
	return &fakeQueue{fake: d.(*fake)}, nil
}

type fakeQueue struct {
	kernels.Queue // whose other ops are not to be used
	*fake
	wrote device.Buffer
}

func (q *fakeQueue) Device() device.Device { return q.fake }
func (q *fakeQueue) Begin()                { q.visiting = true }
func (q *fakeQueue) End()                  { q.visiting = false }

func (q *fakeQueue) Close() error {
	q.queues--
	q.pending = 0 // it waits
	return nil
}

func (q *fakeQueue) Upload(dst device.Buffer, offset int64, src []byte) {
	if !q.visiting || offset != 0 || int64(len(src)) != dst.Size() {
		q.complain("an upload of %d bytes to %d", len(src), dst.Size())
	}
	q.wrote = dst
}

func (q *fakeQueue) NewEvent() (device.Event, error) { return fakeEvent{q.fake}, nil }
func (q *fakeQueue) Record(device.Event) {
	if !q.visiting {
		q.complain("an event recorded outside a visit")
	}
}

type fakeEvent struct{ *fake }

func (e fakeEvent) Wait(ctx context.Context) error {
	if e.pending > 0 {
		e.runs++
		if e.onWait != nil {
			if err := e.onWait(e.runs); err != nil {
				return err
			}
		}
		if e.noise != nil {
			e.pending += e.noise(e.runs)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // the work goes on
	}
	e.clock = e.clock.Add(e.pending + e.wait)
	e.pending = 0
	return nil
}

type fakeWeight struct {
	fakeBuffer
	typ        kernels.Type
	rows, cols int
}

func (w *fakeWeight) Type() kernels.Type { return w.typ }
func (w *fakeWeight) Rows() int          { return w.rows }
func (w *fakeWeight) Cols() int          { return w.cols }
func (w *fakeWeight) Bytes() int64       { return w.size }

func (q *fakeQueue) Pack(ctx context.Context, m kernels.Matrix) (kernels.Weight, error) {
	row, err := m.Type.RowBytes(m.Cols)
	if err != nil {
		return nil, err
	}
	size := row * int64(m.Rows)
	if int64(len(m.Data)) != size {
		q.complain("%d bytes for [%d, %d] of %v", len(m.Data), m.Rows, m.Cols, m.Type)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b, err := q.Alloc(size)
	if err != nil {
		return nil, err
	}
	q.clock = q.clock.Add(seconds(float64(size) / q.packing))
	return &fakeWeight{*b.(*fakeBuffer), m.Type, m.Rows, m.Cols}, nil
}

func (q *fakeQueue) MatMul(x kernels.Tensor, products []kernels.Product) {
	if !q.visiting || x.Buf != q.wrote || x.Off+x.Bytes() > x.Buf.Size() || len(products) == 0 {
		q.complain("%d products of x [%d, %d]", len(products), x.Rows, x.Cols)
	}
	q.ops++
	end := int64(0)
	for _, p := range products {
		w := p.W.(*fakeWeight)
		if w.freed || w.cols != x.Cols || p.Dst.Rows != x.Rows || p.Dst.Cols != w.rows ||
			p.Dst.Off < end || p.Dst.Off+p.Dst.Bytes() > p.Dst.Buf.Size() || p.Dst.Buf == x.Buf {
			q.complain("x [%d, %d] times [%d, %d] to [%d, %d] at %d", x.Rows, x.Cols, w.rows, w.cols, p.Dst.Rows, p.Dst.Cols, p.Dst.Off)
		}
		end = p.Dst.Off + p.Dst.Bytes()
		rate := q.rates.Float
		if w.typ.Quantized() {
			rate = q.rates.Integer
		}
		if x.Rows == 1 {
			q.pending += seconds(float64(w.size) / q.rates.Memory)
		} else {
			q.pending += seconds(float64(x.Rows) * float64(w.rows) * float64(w.cols) / rate)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
