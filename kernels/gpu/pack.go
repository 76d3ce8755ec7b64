package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// pieceBytes is how much of a weight is packed, then copied, at once: enough that
// a copy's fixed cost is nothing beside it.
const pieceBytes = 4 << 20

// packer brings weights to the device. It is made when the first one comes, and
// keeps two pieces of pinned memory until the queue's Close.
type packer struct {
	queue  device.Queue
	pieces [2]piece
}

// piece is host memory for a part of a weight, and when its copy is done.
type piece struct {
	mem     []byte
	pinned  device.Buffer // nil where the device has no such memory
	copied  device.Event
	copying bool // nobody has waited for copied yet
}

// wait waits until the piece's memory may be written again, and returns the error
// of its copy.
func (e *piece) wait(ctx context.Context) error {
	if !e.copying {
		return nil
	}
	err := e.copied.Wait(ctx)
	e.copying = ctx.Err() != nil
	return err
}

func (p *packer) prepare(d device.Device) (err error) {
	if p.queue != nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("memory to pack weights in: %w", err), p.free())
		}
	}()
	if p.queue, err = d.NewQueue(); err != nil {
		return err
	}
	for i := range p.pieces {
		if err := p.pieces[i].prepare(d, p.queue); err != nil {
			return err
		}
	}
	return nil
}

func (e *piece) prepare(d device.Device, q device.Queue) (err error) {
	if e.copied, err = q.NewEvent(); err != nil {
		return err
	}
	pinner, ok := d.(device.Pinner)
	if !ok {
		e.mem = make([]byte, pieceBytes)
		return nil
	}
	if e.pinned, err = pinner.AllocHost(pieceBytes); err != nil {
		return err
	}
	e.mem = e.pinned.Bytes()[:pieceBytes]
	return nil
}

func (p *packer) free() error {
	var errs []error
	if p.queue != nil {
		errs = append(errs, p.queue.Close())
	}
	for _, e := range p.pieces {
		if e.pinned != nil {
			errs = append(errs, e.pinned.Free())
		}
	}
	*p = packer{}
	return errors.Join(errs...)
}

// run brings m to dst, and returns when it is there.
func (p *packer) run(ctx context.Context, dst device.Buffer, l *layout, m *kernels.Matrix) error {
	err := p.copy(ctx, dst, l, m)
	// Whatever came, dst and the pieces are free again only when no copy runs.
	for i := range p.pieces {
		if late := p.pieces[i].wait(context.Background()); err == nil {
			err = late
		}
	}
	return err
}

func (p *packer) copy(ctx context.Context, dst device.Buffer, l *layout, m *kernels.Matrix) error {
	units := int64(l.panels) * int64(l.segments())
	_, most := l.unit(0)
	each := int64(pieceBytes / most)
	for from, i := int64(0), 0; from < units; from, i = from+each, i+1 {
		e := &p.pieces[i%len(p.pieces)]
		if err := e.wait(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+each, units)
		if err := fill(e.mem, l, m, from, to); err != nil {
			return err
		}
		at, _ := l.unit(from)
		last, size := l.unit(to - 1)
		p.queue.Begin()
		p.queue.Upload(dst, at, e.mem[:last+int64(size)-at])
		p.queue.Record(e.copied)
		e.copying = true
		p.queue.End()
	}
	return nil
}

// fill packs the segments from from to to-1 on all cores.
func fill(mem []byte, l *layout, m *kernels.Matrix, from, to int64) error {
	const least = 8 // segments that are worth a goroutine
	workers := max(1, min(int64(runtime.GOMAXPROCS(0)), (to-from)/least))
	var all errgroup.Group
	for w := range workers {
		begin, end := from+(to-from)*w/workers, from+(to-from)*(w+1)/workers
		all.Go(func() error { return fillPart(mem, l, m, from, begin, end) })
	}
	return all.Wait()
}

// fillPart packs the segments from begin to end-1 into the piece that begins
// with segment first.
func fillPart(mem []byte, l *layout, m *kernels.Matrix, first, begin, end int64) error {
	return kernels.Guard(func() {
		start, _ := l.unit(first)
		for u := begin; u < end; u++ {
			at, size := l.unit(u)
			l.repack(mem[at-start:][:size], m, u)
		}
	})
}
