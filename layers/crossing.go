package layers

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// crossing runs the function of a layer whose rows lie in a memory that the host can't
// reach: they cross to the host, and what becomes of them crosses back. The queue runs in
// order, so that there is one copy of the rows for all batches: once the rows of a batch
// have come, the results of the one before have gone.
type crossing struct {
	*Func
	there    device.Event // the rows have come to the host
	src, dst []float32    // of the largest batch
	owned    []device.Buffer
}

func loadCrossing(l *Func, q kernels.Queue, c stage.Config) (_ stage.Runner, err error) {
	rows := max(c.MaxRows, c.MaxOutputs, 0)
	if most := int64(math.MaxInt) / 4 / int64(max(l.in, l.out)); int64(rows) > most {
		return nil, fmt.Errorf("a batch of %d rows of %d numbers is more than the host's memory can hold", rows, max(l.in, l.out))
	}
	r := &crossing{Func: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.there, err = q.NewEvent(); err != nil {
		return nil, err
	}
	if r.src, err = r.allocate(q.Device(), rows*l.in); err != nil {
		return nil, err
	}
	if r.dst, err = r.allocate(q.Device(), rows*l.out); err != nil {
		return nil, err
	}
	return r, nil
}

// allocate returns memory of the host, such as the device copies to and from by itself if
// it has any.
func (r *crossing) allocate(d device.Device, n int) ([]float32, error) {
	p, ok := d.(device.Pinner)
	if !ok || n == 0 {
		return make([]float32, n), nil
	}
	b, err := p.AllocHost(int64(n) * 4)
	if err != nil {
		return nil, fmt.Errorf("allocating host memory for rows: %w", err)
	}
	r.owned = append(r.owned, b)
	return floatsOf(b.Bytes()[:n*4]), nil
}

// Forward implements stage.Runner. It waits until the rows are there; an error of the work
// before them ends the wait.
func (r *crossing) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	if err := r.check(in, out); err != nil {
		return err
	}
	read, written := in.Rows*r.in, out.Rows*r.out
	switch {
	case read > len(r.src) || written > len(r.dst):
		return fmt.Errorf("a batch of %d rows: there is room for %d", in.Rows, len(r.src)/r.in)
	case read == 0:
		return nil
	}
	src, dst := r.src[:read:read], r.dst[:written:written]
	q := p.Queue
	q.Download(bytesOf(src), in.Buf, in.Off)
	q.Record(r.there)
	if err := r.there.Wait(context.Background()); err != nil {
		return fmt.Errorf("waiting for its rows from %s: %w", q.Device().Info().Name, err)
	}
	if err := r.run(dst, src, out.Rows); err != nil {
		return err
	}
	q.Upload(out.Buf, out.Off, bytesOf(dst))
	return nil
}

// Close implements stage.Runner.
func (r *crossing) Close() error {
	var errs []error
	for _, b := range r.owned {
		errs = append(errs, b.Free())
	}
	r.owned = nil
	return errors.Join(errs...)
}
