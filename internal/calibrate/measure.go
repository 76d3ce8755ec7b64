package calibrate

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// The sizes of the products that are measured. Their matrices need less than 64 MiB at a time.
const (
	// For the rate of reading weights: 12 Q8_0 matrices of 4.25 MiB. Each is large enough for
	// huge pages, which a model's matrices also use, and together they are larger than most
	// caches. If a cache holds them all, the rate is the cache's.
	readRows, readCols, readMatrices = 1024, 4096, 12

	// For the rate of computing: a matrix that remains in a cache, and is used several times in
	// one product so that all cores of the device have work. For a slow device it has fewer
	// rows.
	workCols    = 1024
	workRows    = 2048
	workRowsMin = 128
	workWidth   = 8192 // columns of the largest product
	batch       = 64   // rows of activations
)

const (
	// longEnough is the minimum time of a measurement. The work is doubled until it takes
	// longer.
	longEnough = 2 * time.Millisecond

	// mostTimes is the maximum number of measurements of that length. The best one counts.
	mostTimes = 8

	// mostDoublings is how often the work is doubled before the clock is considered stopped.
	mostDoublings = 14
)

// Measure returns the speed of an open device, which should be idle. It takes about Budget or
// less, unless the device is so slow that the smallest amount of work takes longer. It frees all
// memory that it allocates. The device's op set must be registered. Measure checks ctx between
// products.
func Measure(ctx context.Context, d device.Device) (device.Rates, error) {
	return measure(ctx, d, time.Now, Budget)
}

func measure(ctx context.Context, d device.Device, now func() time.Time, budget time.Duration) (rates device.Rates, err error) {
	began := now()
	after := func(percent time.Duration) time.Time { return began.Add(budget * percent / 100) }
	b, err := newBench(ctx, d, now)
	if err != nil {
		return rates, err
	}
	defer func() {
		if err = errors.Join(err, b.close()); err != nil {
			rates = device.Rates{}
		}
	}()
	if rates.Memory, err = b.read(after(30), after(55)); err != nil {
		return rates, err
	}
	if err = b.free(); err != nil {
		return rates, err
	}
	if rates.Integer, err = b.compute(kernels.Q8_0, rates.Memory, after(75)); err != nil {
		return rates, err
	}
	if err = b.free(); err != nil {
		return rates, err
	}
	rates.Float, err = b.compute(kernels.F16, rates.Memory, after(95))
	return rates, err
}

// bench is a device that is measured, with the operands of the products.
type bench struct {
	ctx     context.Context
	now     func() time.Time
	queue   kernels.Queue
	event   device.Event
	x, y    device.Buffer    // the activations and the results
	data    []byte           // the contents of all matrices
	weights []kernels.Weight // those to be freed
}

// ordinary is a byte that, repeated, is a normal number of moderate size in every format: an F16
// of 1.06, an F32 of 0.01, and a block of elements of 60.
const ordinary = 0x3c

func newBench(ctx context.Context, d device.Device, now func() time.Time) (_ *bench, err error) {
	backend, err := kernels.For(d.Info().Kind)
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, now: now}
	if b.queue, err = backend.NewQueue(d); err != nil {
		return nil, err
	}
	// Begin once for all products, because a CPU device pins its caller to a core only if the
	// time until End is long.
	b.queue.Begin()
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.event, err = b.queue.NewEvent(); err != nil {
		return nil, err
	}
	if b.x, err = d.Alloc(4 * batch * workCols); err != nil {
		return nil, err
	}
	if b.y, err = d.Alloc(4 * batch * workWidth); err != nil {
		return nil, err
	}
	row, err := kernels.Q8_0.RowBytes(readCols)
	if err != nil {
		return nil, err
	}
	b.data = bytes.Repeat([]byte{ordinary}, readRows*int(row))
	b.queue.Upload(b.x, 0, b.data[:b.x.Size()])
	return b, b.wait()
}

// close waits for the device and frees everything.
func (b *bench) close() error {
	b.queue.End()
	errs := []error{b.queue.Close(), b.free()}
	for _, buf := range []device.Buffer{b.x, b.y} {
		if buf != nil {
			errs = append(errs, buf.Free())
		}
	}
	return errors.Join(errs...)
}

// free frees the weights, which must not be in use.
func (b *bench) free() error {
	var errs []error
	for _, w := range b.weights {
		errs = append(errs, w.Free())
	}
	b.weights = nil
	return errors.Join(errs...)
}

// read returns how many bytes of weights per second a product of one row reads. It packs matrices
// until the time packed at the latest, and measures until the time done.
func (b *bench) read(packed, done time.Time) (float64, error) {
	var products []kernels.Product
	size := 0.0
	for len(products) < readMatrices {
		w, err := b.pack(kernels.Q8_0, readRows, readCols)
		if err != nil && (len(products) == 0 || b.ctx.Err() != nil) {
			return 0, err
		}
		if err != nil {
			break // not enough memory for more: measure with what was packed
		}
		size = float64(w.Bytes())
		products = append(products, kernels.Product{W: w, Dst: b.output(1, readRows, len(products))})
		if !b.now().Before(packed) {
			break
		}
	}
	x := kernels.Tensor{Buf: b.x, Rows: 1, Cols: readCols, Type: kernels.F32}
	next := 0 // cycle through the matrices, so that each is used as late as possible after its last use
	return b.rate(done, size, func(units int) {
		for units > 0 {
			n := min(units, len(products)-next)
			b.queue.MatMul(x, products[next:next+n])
			next = (next + n) % len(products)
			units -= n
		}
	})
}

// compute returns the multiply-adds per second of a product of many rows with weights of a type,
// on a device that reads memory bytes per second. It measures until the time done.
func (b *bench) compute(t kernels.Type, memory float64, done time.Time) (float64, error) {
	// A device does at least one multiply-add in the time that it takes to read a byte. So
	// with this number of rows, the smallest amount of work takes at most about 16 ms.
	rows := int(min(memory*0.016/batch/workCols, workRows))
	rows = max(workRowsMin, rows-rows%workRowsMin)
	w, err := b.pack(t, rows, workCols)
	if err != nil {
		return 0, err
	}
	var products []kernels.Product
	for i := range workWidth / rows {
		products = append(products, kernels.Product{W: w, Dst: b.output(batch, rows, i)})
	}
	x := kernels.Tensor{Buf: b.x, Rows: batch, Cols: workCols, Type: kernels.F32}
	return b.rate(done, float64(batch*rows*workCols), func(units int) {
		for ; units > 0; units -= len(products) {
			b.queue.MatMul(x, products[:min(units, len(products))])
		}
	})
}

// pack loads a matrix to the device, where it remains until free.
func (b *bench) pack(t kernels.Type, rows, cols int) (kernels.Weight, error) {
	row, err := t.RowBytes(cols)
	if err != nil {
		return nil, err
	}
	m := kernels.Matrix{Name: "for calibration", Type: t, Rows: rows, Cols: cols, Data: b.data[:int64(rows)*row]}
	w, err := b.queue.Pack(b.ctx, m)
	if err == nil {
		b.weights = append(b.weights, w)
	}
	return w, err
}

// output returns the tensor with index i of the consecutive tensors [rows, cols] in y.
func (b *bench) output(rows, cols, i int) kernels.Tensor {
	t := kernels.Tensor{Buf: b.y, Rows: rows, Cols: cols, Type: kernels.F32}
	t.Off = int64(i) * t.Bytes()
	return t
}

// rate repeatedly enqueues units of work and waits for them, at least once and until the given
// time. It returns the best rate per second, where a unit counts as amount.
func (b *bench) rate(until time.Time, amount float64, enqueue func(units int)) (float64, error) {
	best, seen, units := 0.0, 0.0, 1
	for times, doublings := 0, 0; times < mostTimes && doublings <= mostDoublings; {
		from := b.now()
		enqueue(units)
		if err := b.wait(); err != nil {
			return 0, err
		}
		to := b.now()
		took, work := to.Sub(from), amount*float64(units)
		if took > 0 {
			seen = max(seen, work/took.Seconds())
		}
		if took >= longEnough {
			best = max(best, work/took.Seconds())
			times++
		}
		// Judge by the best rate: a measurement that other programs have slowed down can
		// be long without having enough work.
		if seen == 0 || work/seen < longEnough.Seconds() {
			units *= 2
			work *= 2
			doublings++
		}
		if seen > 0 && to.Add(time.Duration(work/seen*1e9)).After(until) {
			break
		}
	}
	if best == 0 {
		best = seen
	}
	if best == 0 {
		return 0, errors.New("the clock doesn't advance")
	}
	return best, nil
}

// wait waits for the operations enqueued and returns their error or ctx's.
func (b *bench) wait() error {
	b.queue.Record(b.event)
	if err := b.event.Wait(b.ctx); err != nil {
		return err
	}
	return b.ctx.Err() // Wait doesn't check ctx if the event is done
}
