package gpu

import (
	"context"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// workspace is device memory for the quantized activations of a MatMul. It grows
// when a larger batch comes, and never shrinks.
type workspace struct {
	buf  device.Buffer
	idle device.Event // made to wait until nothing uses buf
}

// quantizedBytes returns what rows rows of cols columns of activations take
// quantized: of each block of 32 its int8s, its scale and its sum.
func quantizedBytes(rows, cols int) (int64, error) {
	const each = block + 4 + 4
	if rows < 0 || cols < 0 {
		return 0, fmt.Errorf("%d rows of %d columns of activations", rows, cols)
	}
	blocks := int64(cols / block)
	if cols%block > 0 {
		blocks++
	}
	if blocks > 0 && int64(rows) > (math.MaxInt64-page)/each/blocks {
		return 0, fmt.Errorf("%d rows of %d columns of activations are more than memory can hold", rows, cols)
	}
	return wholePages(int64(rows) * blocks * each), nil
}

// WorkspaceBytes counts the driver's context, which holds the kernels too, only
// on a device that isn't there: of one that is, what was free was measured with
// its context in place.
func (backend) WorkspaceBytes(d device.Info, rows, cols int) (int64, error) {
	bytes, err := quantizedBytes(rows, cols)
	if err != nil {
		return 0, err
	}
	if d.Imagined {
		if bytes > math.MaxInt64-kernels.ContextBytes {
			return 0, fmt.Errorf("%d rows of %d columns of activations are more than memory can hold", rows, cols)
		}
		bytes += kernels.ContextBytes
	}
	return bytes, nil
}

func (q *queue) Reserve(rows, cols int) error {
	bytes, err := quantizedBytes(rows, cols)
	if err != nil {
		return err
	}
	q.Begin()
	defer q.End()
	_, err = q.take(bytes)
	return err
}

// take returns where the workspace lies, once it has bytes bytes. It is called
// between Begin and End.
func (q *queue) take(bytes int64) (uint64, error) {
	w := &q.workspace
	if w.buf == nil || w.buf.Size() < bytes {
		if err := q.settle(); err != nil {
			return 0, err
		}
		if err := w.free(); err != nil {
			return 0, err
		}
		if bytes == 0 {
			return 0, nil
		}
		buf, err := q.Device().Alloc(bytes)
		if err != nil {
			return 0, fmt.Errorf("workspace: %w", err)
		}
		w.buf = buf
	}
	return address(w.buf, q.Device()), nil
}

// settle waits until kernels that were enqueued before no longer need the
// workspace. Their error stays the queue's.
func (q *queue) settle() (err error) {
	w := &q.workspace
	if w.buf == nil {
		return nil
	}
	if w.idle == nil {
		if w.idle, err = q.NewEvent(); err != nil {
			return err
		}
	}
	q.Record(w.idle)
	if err := w.idle.Wait(context.Background()); err != nil {
		q.Fail(err)
		return err
	}
	return nil
}

func (w *workspace) free() error {
	if w.buf == nil {
		return nil
	}
	err := w.buf.Free()
	w.buf = nil
	return err
}
