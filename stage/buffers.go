package stage

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// buffers is a stage's memory for activations. A stage's queue runs in order,
// so what only its own layers see is there once; what another stage reads, or
// the host writes, is there once a slot.
type buffers struct {
	transfers []device.Transfer // from each replica of the stage before; none for the first, nil where none comes from there
	headers   []device.Buffer   // a slot
	inputs    []device.Buffer   // a slot: what the first layer reads; nil where that is read in place, or there is none
	brought   [][]float32       // a slot of the first stage: where the host writes the input
	sealed    [][]byte          // a slot: where the host writes the header, if a device copies it from there while the host goes on
	outputs   []kernels.Tensor  // a slot: [rows, width]
	events    []device.Event    // a slot
	host      [][]float32       // a slot: where results are downloaded to; nil where the host reads them in place
	between   [2]kernels.Tensor
	work      kernels.Tensor
	width     int // of the input that batches bring along; 0: none
	widths    []int
	wanted    []bool // a layer: its output has rows only for the outputs
	last      bool
	owned     []device.Buffer
}

func (f *buffers) allocate(q kernels.Queue, layers []Layer, at Position, c Config) error {
	s := c.size(layers)
	f.last = at.Last
	d := q.Device()
	for _, l := range layers {
		f.widths = append(f.widths, l.Shape().Width)
		f.wanted = append(f.wanted, l.Shape().Outputs)
	}
	if len(at.Before) == 0 {
		s.input, f.width = c.inputs(), c.Input
	}
	f.transfers = make([]device.Transfer, len(at.Before))
	for i, before := range at.Before {
		if before == nil {
			continue
		}
		t, err := device.NewTransfer(before.device, q)
		if err != nil {
			return err
		}
		f.transfers[i] = t
		if !t.InPlace() {
			s.input = int64(c.MaxRows) * int64(before.buffers.widths[len(before.buffers.widths)-1]) * 4
		}
	}
	if err := q.Reserve(c.MaxRows, s.quantized); err != nil {
		return err
	}
	tensor := func(bytes int64) (kernels.Tensor, error) {
		b, err := f.alloc(d, bytes)
		return kernels.Tensor{Buf: b, Rows: 1, Cols: int(bytes / 4), Type: kernels.F32}, err
	}
	var err error
	if f.work, err = tensor(s.workspace(c, d.Info())); err != nil {
		return err
	}
	for i := range s.betweens() {
		if f.between[i], err = tensor(s.between); err != nil {
			return err
		}
	}
	for range c.InFlight {
		header, err := f.alloc(d, s.header)
		if err != nil {
			return err
		}
		if _, ok := d.(device.Pinner); ok {
			sealed, err := f.hostMemory(d, s.header)
			if err != nil {
				return err
			}
			f.sealed = append(f.sealed, sealed)
		}
		output, err := tensor(s.output)
		if err != nil {
			return err
		}
		event, err := q.NewEvent()
		if err != nil {
			return err
		}
		f.headers, f.outputs, f.events = append(f.headers, header), append(f.outputs, output), append(f.events, event)
		if s.input > 0 {
			input, err := f.alloc(d, s.input)
			if err != nil {
				return err
			}
			f.inputs = append(f.inputs, input)
			if f.width > 0 {
				mem, err := f.hostView(input, s.input)
				if err != nil {
					return err
				}
				f.brought = append(f.brought, floats(mem))
			}
		}
		if f.last && s.output > 0 && output.Buf.Bytes() == nil {
			mem, err := f.hostMemory(d, s.output)
			if err != nil {
				return err
			}
			f.host = append(f.host, floats(mem))
		}
	}
	return nil
}

// hostView is where the host writes what goes to a buffer: there, or in memory of
// its own to be uploaded.
func (f *buffers) hostView(b device.Buffer, bytes int64) ([]byte, error) {
	if mem := b.Bytes(); mem != nil {
		return mem[:bytes], nil
	}
	return f.hostMemory(b.Device(), bytes)
}

// hostMemory is memory of the host's that is copied to or from a device: such that
// the device does so by itself, where it has any.
func (f *buffers) hostMemory(d device.Device, bytes int64) ([]byte, error) {
	p, ok := d.(device.Pinner)
	if !ok {
		return make([]byte, bytes), nil
	}
	b, err := p.AllocHost(bytes)
	if err != nil {
		return nil, fmt.Errorf("allocating host memory for transfers: %w", err)
	}
	f.owned = append(f.owned, b)
	return b.Bytes()[:bytes], nil
}

// seal returns the batch's encoded header, where the device is to read it.
func (f *buffers) seal(b *Batch) []byte {
	if f.sealed == nil {
		return b.encoded
	}
	own := f.sealed[b.Slot]
	return own[:copy(own, b.encoded)]
}

func (f *buffers) alloc(d device.Device, bytes int64) (device.Buffer, error) {
	b, err := d.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("allocating activations: %w", err)
	}
	f.owned = append(f.owned, b)
	return b, nil
}

// receive brings the batch's activations to the stage's device. It may wait for
// the stage before, and so is called before the queue's Begin: who waits doesn't
// hold a device.
func (f *buffers) receive(ctx context.Context, b *Batch) (x kernels.Tensor, err error) {
	x = b.x
	if len(f.transfers) == 0 {
		return x, nil
	}
	var into device.Buffer
	if f.inputs != nil {
		into = f.inputs[b.Slot]
	}
	x.Buf, err = f.transfers[b.Route%len(f.transfers)].Move(ctx, into, x.Buf, x.Bytes(), b.ready)
	return x, err
}

// bring returns the input that the batch brings along, on the stage's device.
func (f *buffers) bring(q kernels.Queue, b *Batch) (kernels.Tensor, error) {
	x := kernels.Tensor{Buf: f.inputs[b.Slot], Rows: b.rows.N, Cols: f.width, Type: kernels.F32}
	n := x.Rows * x.Cols
	switch own := f.brought[b.Slot]; {
	case n > min(len(own), len(b.Input)):
		return x, fmt.Errorf("a batch of %d rows brings %d numbers along: it needs %d, and there is room for %d", x.Rows, len(b.Input), n, len(own))
	case n > 0 && (x.Buf.Bytes() == nil || &own[0] != &b.Input[0]):
		q.Upload(x.Buf, 0, bytesOf(b.Input[:n]))
	}
	return x, nil
}

// output returns where layer i of the run writes.
func (f *buffers) output(i int, b *Batch) kernels.Tensor {
	t := f.outputs[b.Slot]
	if i < len(f.widths)-1 {
		t = f.between[i%2]
	}
	t.Rows, t.Cols = b.rows.N, f.widths[i]
	if f.wanted[i] {
		t.Rows = b.rows.Outputs
	}
	return t
}

// deliver makes the last stage's results, or what is wanted of them, readable by
// the host.
func (f *buffers) deliver(q kernels.Queue, b *Batch, x kernels.Tensor) {
	switch {
	case !f.last || x.Bytes() == 0:
	case f.host == nil:
		b.values = floats(x.Buf.Bytes()[x.Off : x.Off+x.Bytes()])
	case b.Best:
		b.chosen = f.choose(q, f.host[b.Slot], x)
	default:
		b.values = f.host[b.Slot][:x.Rows*x.Cols]
		q.Download(bytesOf(b.values), x.Buf, x.Off)
	}
}

// floats is b as float32s, in place: device memory is aligned to 64 bytes.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4)
}

func (f *buffers) free() error {
	var errs []error
	for _, t := range f.transfers {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	for _, b := range f.owned {
		errs = append(errs, b.Free())
	}
	*f = buffers{}
	return errors.Join(errs...)
}
