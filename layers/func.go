package layers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Func is a layer that a Go function computes. It implements stage.Layer.
//
// The function runs on the goroutine of the stage that the layer is placed in, in the
// host's memory. Where that is the memory of the stage's device, as a CPU's is, it reads
// and writes the batch there. On a GPU the rows are copied to the host and the results
// back, for which the stage waits, so plans place the layer on a CPU where they can.
//
// The function is called by one goroutine at a time, unless the layer is loaded several
// times: in replicas, or in several pipelines. If it returns an error, panics or calls
// runtime.Goexit, the batch fails with a *stage.Error. A pipeline.Pipeline then computes
// the batch again in parts, so that only the calls fail whose rows are at fault.
type Func struct {
	// PerRow says how long the function takes for a row, on one core. Plans balance
	// stages by it. Zero means a guess from the widths: a nanosecond a number. It must be
	// set before the layer is given to a pipeline.
	PerRow time.Duration

	name    string
	in, out int
	compute func(dst, src []float32, rows int) error
}

// NewRowFunc returns a layer that reads rows of in numbers and hands on rows of out numbers.
// It calls f for each row of a batch, in order: src is the row, which f must not change;
// dst is where the result goes, zeros at first. f must not keep either, and neither
// reaches beyond its row, also by append. The name must be unique in a pipeline.
//
// If f depends on src alone, a row's result has the same bits whatever shares its batch.
func NewRowFunc(name string, in, out int, f func(dst, src []float32) error) (*Func, error) {
	if f == nil {
		return nil, fmt.Errorf("%s: there is no function", name)
	}
	return NewBatchFunc(name, in, out, func(dst, src []float32, rows int) error {
		for i := range rows {
			if err := f(dst[i*out:(i+1)*out:(i+1)*out], src[i*in:(i+1)*in:(i+1)*in]); err != nil {
				return err
			}
		}
		return nil
	})
}

// NewBatchFunc is NewRowFunc with a function that is called once for all rows of a batch,
// at least one, which lie one after another in dst and src. How many there are, and in
// which order, depends on who else calls: f must compute each row from that row alone, or
// a caller's result changes with what shares its batch.
func NewBatchFunc(name string, in, out int, f func(dst, src []float32, rows int) error) (*Func, error) {
	switch {
	case name == "":
		return nil, errors.New("the layer of a function has no name")
	case f == nil:
		return nil, fmt.Errorf("%s: there is no function", name)
	case in < 1 || out < 1 || int64(in) > mostWidth || int64(out) > mostWidth:
		return nil, fmt.Errorf("%s: a function from rows of %d numbers to rows of %d: both must be from 1 to %d", name, in, out, int64(mostWidth))
	}
	return &Func{name: name, in: in, out: out, compute: f}, nil
}

// Name implements stage.Layer.
func (l *Func) Name() string { return l.name }

// Shape implements stage.Layer.
func (l *Func) Shape() stage.Shape { return stage.Shape{Input: l.in, Width: l.out} }

// What crossing to the host and back is taken to cost where a device has a memory of its
// own: PCI Express of generation 3, and the wait in the middle of a batch.
const (
	crossingSeconds = 50e-6
	crossingBytes   = 10e9 // a second
)

// Cost implements stage.Layer. The layer takes no memory on the device, and the time that
// PerRow says; where the device has a memory of its own, the time of two copies is added.
func (l *Func) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	if l.PerRow < 0 {
		return packer.Cost{}, fmt.Errorf("PerRow is %v: a row can't take less than no time", l.PerRow)
	}
	numbers := float64(l.in) + float64(l.out)
	c := packer.Cost{Fixed: 1e-6, PerRow: l.PerRow.Seconds()}
	if l.PerRow == 0 {
		c.PerRow = numbers * 1e-9
	}
	if !d.HostMemory {
		c.Fixed += crossingSeconds
		c.PerRow += numbers * 4 / crossingBytes
	}
	if d.Imagined { // plans divide by its speed, in cores: the function has one of the host's
		speed := max(1, device.GuessedSpeed(d.Kind))
		c.Fixed *= speed
		c.PerRow *= speed
	}
	return c, nil
}

// Load implements stage.Layer.
func (l *Func) Load(_ context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	if q.Device().Info().HostMemory {
		return onHost{l}, nil
	}
	return loadCrossing(l, q, c)
}

// check returns an error if the tensors aren't the rows that the function is for.
func (l *Func) check(in, out kernels.Tensor) error {
	if in.Cols != l.in || out.Cols != l.out || in.Rows != out.Rows {
		return fmt.Errorf("%d rows of %d numbers are to become %d rows of %d: the function is for rows of %d that become as many rows of %d", in.Rows, in.Cols, out.Rows, out.Cols, l.in, l.out)
	}
	return nil
}

// run computes rows of src to dst, both of which are as long as that.
func (l *Func) run(dst, src []float32, rows int) error {
	if rows == 0 {
		return nil
	}
	clear(dst) // of what other batches left there
	return l.compute(dst, src, rows)
}

// onHost runs the function on memory that the host reaches.
type onHost struct{ *Func }

// Forward implements stage.Runner.
func (r onHost) Forward(_ *stage.Pass, in, out kernels.Tensor) error {
	if err := r.check(in, out); err != nil {
		return err
	}
	src, err := View(in)
	if err != nil {
		return err
	}
	dst, err := View(out)
	if err != nil {
		return err
	}
	return r.run(dst, src, out.Rows)
}

// Close implements stage.Runner.
func (onHost) Close() error { return nil }
