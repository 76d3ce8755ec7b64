package calibrate

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// The products that are timed. What they hold at a time is less than 64 MiB.
const (
	// Weights that are read: so many Q8_0 matrices of 4.25 MiB, each large
	// enough for the huge pages that a model's own get, together larger than
	// most caches. (Of a cache that holds them all, the rate is the cache's.)
	readRows, readCols, readMatrices = 1024, 4096, 12

	// Weights that are computed with: a matrix that stays in a cache, used
	// several times in one product so that all of a device has work. A slow
	// device gets a matrix of fewer rows.
	workCols    = 1024
	workRows    = 2048
	workRowsMin = 128
	workWidth   = 8192 // columns of the largest product
	batch       = 64   // rows of activations
)

const (
	// A shorter time says little; the work is doubled until it takes longer.
	longEnough = 2 * time.Millisecond
	// How many times of that length are taken at most; the best one counts.
	mostTimes = 8
	// Where so many doublings are not enough, the clock stands still.
	mostDoublings = 14
)

// Measure returns how fast an open device is, which should have nothing else to
// do. It takes about Budget at most, where the device isn't so slow that the
// least work takes longer, and frees all that it allocates. The device's op set
// must have been registered. ctx is looked at between products.
func Measure(ctx context.Context, d device.Device) (device.Rates, error) {
	return measure(ctx, d, time.Now, Budget)
}

func measure(ctx context.Context, d device.Device, now func() time.Time, budget time.Duration) (rates device.Rates, err error) {
	began := now()
	share := func(percent time.Duration) time.Time { return began.Add(budget * percent / 100) }
	b, err := newBench(ctx, d, now)
	if err != nil {
		return rates, err
	}
	defer func() {
		if err = errors.Join(err, b.close()); err != nil {
			rates = device.Rates{}
		}
	}()
	if rates.Memory, err = b.read(share(30), share(55)); err != nil {
		return rates, err
	}
	if err = b.free(); err != nil {
		return rates, err
	}
	if rates.Integer, err = b.compute(kernels.Q8_0, rates.Memory, share(75)); err != nil {
		return rates, err
	}
	if err = b.free(); err != nil {
		return rates, err
	}
	rates.Float, err = b.compute(kernels.F16, rates.Memory, share(95))
	return rates, err
}

// bench is a device with what is multiplied on it.
type bench struct {
	ctx     context.Context
	now     func() time.Time
	queue   kernels.Queue
	event   device.Event
	x, y    device.Buffer
	data    []byte
	weights []kernels.Weight
}

// ordinary is a byte that makes an ordinary number of every type, whatever is
// read from a row of them: an F16 of 1.06, an F32 of 0.01, a block of 60s.
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
	// One visit for all of it: a CPU device moves to its cores only those who
	// stay a while.
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

// close frees what the bench holds, once the device has done with it.
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

// free frees the weights, which must be out of use.
func (b *bench) free() error {
	var errs []error
	for _, w := range b.weights {
		errs = append(errs, w.Free())
	}
	b.weights = nil
	return errors.Join(errs...)
}

// read returns the bytes of weights that a product of one row reads a second.
// It packs the weights until packed at the latest, and reads them until done.
func (b *bench) read(packed, done time.Time) (float64, error) {
	var products []kernels.Product
	size := 0.0
	for len(products) < readMatrices {
		w, err := b.pack(kernels.Q8_0, readRows, readCols)
		if err != nil && (len(products) == 0 || b.ctx.Err() != nil) {
			return 0, err
		}
		if err != nil {
			break // little memory is free there: what was packed will do
		}
		size = float64(w.Bytes())
		products = append(products, kernels.Product{W: w, Dst: b.output(1, readRows, len(products))})
		if !b.now().Before(packed) {
			break
		}
	}
	x := kernels.Tensor{Buf: b.x, Rows: 1, Cols: readCols, Type: kernels.F32}
	next := 0 // matrices take turns, so that each is read when it was out of use longest
	return b.rate(done, size, func(units int) {
		for units > 0 {
			n := min(units, len(products)-next)
			b.queue.MatMul(x, products[next:next+n])
			next = (next + n) % len(products)
			units -= n
		}
	})
}

// compute returns the multiply-adds a second of a product of many rows with
// weights of a type, on a device that reads so many bytes a second.
func (b *bench) compute(t kernels.Type, memory float64, done time.Time) (float64, error) {
	// A device computes with a byte at least once in the time it takes to read
	// it. So the least work takes some 16 ms, and mostly far less.
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

// pack puts a matrix on the device that lies there until free.
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

// output is the i-th tensor [rows, cols] in y.
func (b *bench) output(rows, cols, i int) kernels.Tensor {
	t := kernels.Tensor{Buf: b.y, Rows: rows, Cols: cols, Type: kernels.F32}
	t.Off = int64(i) * t.Bytes()
	return t
}

// rate enqueues units of work, waits for them, and does so again until a time,
// at least once. It returns how much was done in a second at best, of which a
// unit is amount.
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
		// By the best rate, since a try that others on the machine made slow
		// is long without having enough work.
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
		return 0, errors.New("the clock stands still")
	}
	return best, nil
}

// wait returns when all that was enqueued is done, with its error or ctx's.
func (b *bench) wait() error {
	b.queue.Record(b.event)
	if err := b.event.Wait(b.ctx); err != nil {
		return err
	}
	return b.ctx.Err() // an event that is done doesn't look at it
}
