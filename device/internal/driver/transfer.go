package driver

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
)

// TransferTo returns a transfer from the GPU to a queue of this GPU or of another. Between
// queues of the same GPU it copies nothing. To another GPU it is a direct copy if the
// receiver can read this GPU's memory, and otherwise a copy through pinned host memory,
// which belongs to the transfer. ok is false if the queue's device is not of this package.
func (d *Device) TransferTo(to device.Queue) (device.Transfer, bool, error) {
	other, ok := to.Device().(*Device)
	switch {
	case !ok:
		return nil, false, nil
	case other.same(d.gpu):
		return sameGPU{to}, true, nil
	}
	t, err := newBetween(d, other, to)
	if err != nil {
		return nil, false, fmt.Errorf("a transfer from %s to %s: %w", d.name, other.name, err)
	}
	return t, true, nil
}

// TransferFrom returns no transfer. TransferTo returns those between GPUs of this package.
func (*Device) TransferFrom(device.Device, device.Queue) (device.Transfer, bool, error) {
	return nil, false, nil
}

// sameGPU is the transfer between two queues of one GPU. It copies nothing: the receiving
// queue waits for the event.
type sameGPU struct{ to device.Queue }

func (t sameGPU) Move(ctx context.Context, _, src device.Buffer, _ int64, ready device.Event) (device.Buffer, error) {
	if _, ok := ready.(*Event); !ok {
		return src, ready.Wait(ctx)
	}
	after(t.to, ready)
	return src, nil
}

func (sameGPU) InPlace() bool { return true }
func (sameGPU) Close() error  { return nil }

// after makes a queue, which must not be between Begin and End, wait for e.
func after(q device.Queue, e device.Event) {
	q.Begin()
	defer q.End()
	q.After(e)
}

// check returns an error if n bytes can't be moved from src to into.
func check(into, src device.Buffer, n int64) error {
	if into == nil || src == nil {
		return fmt.Errorf("moving %d bytes: a buffer is nil", n)
	}
	if n < 0 || n > src.Size() || n > into.Size() {
		return fmt.Errorf("moving %d bytes from a buffer of %d to one of %d", n, src.Size(), into.Size())
	}
	return nil
}

// on returns b as a *Buffer. It is an error if b is not an allocated buffer of this GPU.
func (d *Device) on(b device.Buffer) (*Buffer, error) {
	own, ok := b.(*Buffer)
	if !ok || !own.device.same(d.gpu) || own.Address() == 0 {
		return nil, fmt.Errorf("%s: moving to or from a buffer that isn't this GPU's, or was freed", d.name)
	}
	return own, nil
}
