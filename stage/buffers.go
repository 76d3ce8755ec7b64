package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// buffers is a stage's memory for activations. Memory that only the stage's own layers use
// exists once, because the stage's queue performs operations in order. Memory that another
// stage reads, or that the host writes, exists once for each slot.
type buffers struct {
	transfers []device.Transfer // from each replica of the stage before; nil if that sends nothing, or to the host's memory
	headers   []device.Buffer   // by slot
	inputs    []device.Buffer   // by slot: the input of the first layer; nil if it is read in another stage's memory, or there is none
	brought   [][]float32       // by slot: the host's memory for activations that arrive there; nil if none do
	sealed    [][]byte          // by slot: pinned memory for the header, if the device copies it asynchronously
	outputs   []kernels.Tensor  // by slot: [rows, width]
	events    []device.Event    // by slot: the end of the stage's work
	results   []results         // by slot, if the stage is the last one
	topK      kernels.TopKer    // the queue; nil if it has no such operation
	host      [][]float32       // by slot: the host's memory for a copy of the output; nil if none is needed
	between   [2]kernels.Tensor // activations between the stage's layers
	work      kernels.Tensor    // the workspace
	header    int64             // the most bytes in a header
	width     int               // the width of the rows that the stage receives; 0: it receives none
	widths    []int             // by layer: the width of its output
	wanted    []bool            // by layer: its output has rows only for those that want results
	last      bool              // the stage is the last one
	owned     []device.Buffer   // all of these, to be freed
}

// allocate allocates the buffers.

func (f *buffers) allocate(q kernels.Queue, layers []Layer, at Position, c Config) error {
	if err := c.checkSizes(layers); err != nil {
		return err
	}
	s := c.size(layers)
	f.last, f.header = at.Last, s.header
	f.topK, _ = q.(kernels.TopKer)
	d := q.Device()
	for _, l := range layers {
		f.widths = append(f.widths, l.Shape().Width)
		f.wanted = append(f.wanted, l.Shape().Outputs)
	}
	if c.MaxTop < 0 || c.MaxTop > kernels.MostTopK {
		return fmt.Errorf("batches that want the %d largest values of a row: they may want up to %d", c.MaxTop, kernels.MostTopK)
	}
	before, width, err := at.upstream(c)
	if err != nil {
		return err
	}
	f.width = width
	f.transfers = make([]device.Transfer, len(before))
	fromHost := false
	for i, u := range before {
		switch {
		case u.Width == 0:
			continue
		case u.Device == nil:
			fromHost = true
			s.input = c.rowsBytes(width)
			continue
		}
		t, err := device.NewTransfer(u.Device, q)
		if err != nil {
			return err
		}
		f.transfers[i] = t
		if !t.InPlace() {
			s.input = c.rowsBytes(width)
		}
	}
	if err := q.Reserve(c.MaxRows, s.quantized); err != nil {
		return err
	}
	tensor := func(bytes int64) (kernels.Tensor, error) {
		b, err := f.alloc(d, bytes)
		return kernels.Tensor{Buf: b, Rows: 1, Cols: int(bytes / 4), Type: kernels.F32}, err
	}
	if f.work, err = tensor(s.workspace(c)); err != nil {
		return err
	}
	for i := range s.betweens() {
		if f.between[i], err = tensor(s.between); err != nil {
			return err
		}
	}
	for range c.InFlight {
		if err := f.allocateSlot(q, s, at, c, fromHost); err != nil {
			return err
		}
	}
	return nil
}

// allocateSlot allocates the buffers of the next slot.
func (f *buffers) allocateSlot(q kernels.Queue, s size, at Position, c Config, fromHost bool) error {
	d := q.Device()
	header, err := f.alloc(d, s.header)
	if err != nil {
		return err
	}
	f.headers = append(f.headers, header)
	if _, ok := d.(device.Pinner); ok {
		sealed, err := f.hostMemory(d, s.header)
		if err != nil {
			return err
		}
		f.sealed = append(f.sealed, sealed)
	}
	output, err := f.alloc(d, s.output)
	if err != nil {
		return err
	}
	f.outputs = append(f.outputs, kernels.Tensor{Buf: output, Type: kernels.F32})
	event, err := q.NewEvent()
	if err != nil {
		return err
	}
	f.events = append(f.events, event)
	if s.input > 0 {
		input, err := f.alloc(d, s.input)
		if err != nil {
			return err
		}
		f.inputs = append(f.inputs, input)
		if fromHost {
			mem, err := f.hostView(input, s.input)
			if err != nil {
				return err
			}
			f.brought = append(f.brought, floats(mem))
		}
	}
	if reachable := output.Bytes() != nil; at.Host && !reachable && s.output > 0 {
		mem, err := f.hostMemory(d, s.output)
		if err != nil {
			return err
		}
		f.host = append(f.host, floats(mem))
	}
	if f.last && s.output > 0 {
		return f.allocateResults(output, s, c)
	}
	return nil
}

// hostView returns the host's memory for what it writes to a buffer: the buffer's own
// memory, or, if the host can't reach that, memory from which it is uploaded.
func (f *buffers) hostView(b device.Buffer, bytes int64) ([]byte, error) {
	if mem := b.Bytes(); mem != nil {
		return mem[:bytes], nil
	}
	return f.hostMemory(b.Device(), bytes)
}

// hostMemory allocates memory of the host for copies to or from a device. If the device can
// copy asynchronously from pinned memory, it is pinned.
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

// describe enqueues a copy of the batch's header to the device.
func (f *buffers) describe(q kernels.Queue, b *Batch) error {
	from := b.encoded
	if int64(len(from)) > f.header {
		return fmt.Errorf("a batch with a header of %d bytes: the stage has memory for %d", len(from), f.header)
	}
	if f.sealed != nil {
		own := f.sealed[b.Slot]
		from = own[:copy(own, from)]
	}
	q.Upload(f.headers[b.Slot], 0, from)
	return nil
}

// alloc allocates memory on a device, which free frees.
func (f *buffers) alloc(d device.Device, bytes int64) (device.Buffer, error) {
	b, err := d.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("allocating activations: %w", err)
	}
	f.owned = append(f.owned, b)
	return b, nil
}

// receive brings the batch's activations from the device of the stage before to this
// stage's device. It may wait for that stage, and is therefore called before the queue's
// Begin, so that the stage doesn't hold its device while it waits.
func (f *buffers) receive(ctx context.Context, b *Batch) (x kernels.Tensor, err error) {
	if len(f.transfers) == 0 {
		return kernels.Tensor{}, nil
	}
	x = b.x
	t := f.transfers[Replicas(len(f.transfers)).For(b.Route)]
	switch {
	case t == nil && x.Buf == nil:
		return x, nil // bring copies it from the host's memory
	case t == nil:
		return x, fmt.Errorf("a batch has activations on %s, but the stage expects them in the host's memory", x.Buf.Device().Info().Name)
	case x.Buf == nil:
		return x, errors.New("a batch has activations in the host's memory, but the stage expects them on a device")
	}
	var into device.Buffer
	if f.inputs != nil {
		into = f.inputs[b.Slot]
	}
	x.Buf, err = t.Move(ctx, into, x.Buf, x.Bytes(), b.ready)
	return x, err
}

// bring copies the activations in a batch's Input to the stage's device and returns them.
// It copies nothing if Input is the memory that [Stage.Input] returned and the device reads
// it there.
func (f *buffers) bring(q kernels.Queue, b *Batch) (kernels.Tensor, error) {
	x := kernels.Tensor{Buf: f.inputs[b.Slot], Rows: len(b.Header.Tokens), Cols: f.width, Type: kernels.F32}
	if b.x.Cols > 0 { // an earlier stage has computed them
		if x.Rows = b.x.Rows; b.x.Cols != f.width {
			return x, fmt.Errorf("a batch has rows of %d numbers: the stage reads rows of %d", b.x.Cols, f.width)
		}
	}
	n := x.Rows * x.Cols
	switch own := f.brought[b.Slot]; {
	case b.bare && n > 0:
		return x, fmt.Errorf("a batch of %d rows has no activations: the stage reads %d numbers a row", x.Rows, x.Cols)
	case n > min(len(own), len(b.Input)):
		return x, fmt.Errorf("a batch of %d rows has %d numbers in its Input: it needs %d, and the stage has memory for %d", x.Rows, len(b.Input), n, len(own))
	case n > 0 && (x.Buf.Bytes() == nil || &own[0] != &b.Input[0]):
		q.Upload(x.Buf, 0, bytesOf(b.Input[:n]))
	}
	return x, nil
}

// output returns the tensor that layer i of the stage writes for a batch.
func (f *buffers) output(i int, b *Batch) kernels.Tensor {
	t := f.outputs[b.Slot]
	if i < len(f.widths)-1 {
		t = f.between[i%2]
	}
	t.Rows, t.Cols = len(b.Header.Tokens), f.widths[i]
	if f.wanted[i] {
		t.Rows = len(b.Header.Outputs)
	}
	return t
}

// free frees the buffers.
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
