package stage

import (
	"context"
	"sync"
	"unsafe"

	"github.com/leat-dev/leat/device"
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

// unchoose sets the choice to -1 in rows of which no column is a number. There
// ArgMax answers column 0, as it does where that is the largest; which of the two it
// was, the column itself tells. It is hardly ever chosen, so it is looked at then
// only, in the results, which lie on the device until the slot is used again.
func (f *buffers) unchoose(ctx context.Context, b *Batch) error {
	for row, column := range b.chosen {
		if column != 0 {
			continue
		}
		v, err := f.peek.at(ctx, b.x.Buf, b.x.Off+int64(row)*int64(b.x.Cols)*4)
		if err != nil {
			return err
		}
		if v != v {
			b.chosen[row] = -1
		}
	}
	return nil
}

// peek reads single numbers of a device's memory that nobody writes any more, on a
// queue of its own, since whoever waits for a batch isn't the stage. The zero value
// is ready. Its methods may be called from any goroutine.
type peek struct {
	mu    sync.Mutex
	queue device.Queue
	event device.Event
	value [1]float32
}

// at returns the float32 at an offset of a buffer.
func (p *peek) at(ctx context.Context, b device.Buffer, offset int64) (float32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.event == nil {
		if err := p.open(b.Device()); err != nil {
			return 0, err
		}
	}
	p.queue.Begin()
	p.queue.Download(bytesOf(p.value[:]), b, offset)
	p.queue.Record(p.event)
	p.queue.End()
	// The download is into the peek's own memory, so it must be over either way.
	err := p.event.Wait(context.WithoutCancel(ctx))
	return p.value[0], err
}

func (p *peek) open(d device.Device) (err error) {
	if p.queue == nil {
		if p.queue, err = d.NewQueue(); err != nil {
			return err
		}
	}
	p.event, err = p.queue.NewEvent()
	return err
}

func (p *peek) close() error {
	if p.queue == nil {
		return nil
	}
	return p.queue.Close()
}
