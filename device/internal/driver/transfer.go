package driver

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
)

// TransferTo returns the path from the GPU to a queue of this GPU or of another: none
// is needed to one of the same GPU; to another GPU it is a copy from one to the other
// where that can read this one's memory, else one through pinned memory of the host.
//
// Whoever moves something sees to it that src stays as it is, and that nobody uses
// into, until an event is done that the receiving queue recorded after the Move; and
// that into is free when Move is called. The pinned memory between is the transfer's
// own, and Move waits until it is free. When Move returns an error, nothing of what
// it enqueued still runs.
func (d *Device) TransferTo(to device.Queue) (device.Transfer, bool, error) {
	other, ok := to.Device().(*Device)
	switch {
	case !ok:
		return nil, false, nil
	case other.same(d.gpu):
		return samePlace{to}, true, nil
	}
	t, err := newBetween(d, other, to)
	if err != nil {
		return nil, false, fmt.Errorf("a transfer from %s to %s: %w", d.name, other.name, err)
	}
	return t, true, nil
}

// TransferFrom returns no path: from a GPU of this driver it is TransferTo's.
func (*Device) TransferFrom(device.Device, device.Queue) (device.Transfer, bool, error) {
	return nil, false, nil
}

// samePlace joins queues of one GPU: nothing moves, the second only follows.
type samePlace struct{ to device.Queue }

func (t samePlace) Move(ctx context.Context, _, src device.Buffer, _ int64, ready device.Event) (device.Buffer, error) {
	if _, ok := ready.(*Event); !ok {
		return src, ready.Wait(ctx)
	}
	after(t.to, ready)
	return src, nil
}

func (samePlace) InPlace() bool { return true }
func (samePlace) Close() error  { return nil }

// after makes a queue that isn't being visited go on after e.
func after(q device.Queue, e device.Event) {
	q.Begin()
	defer q.End()
	q.After(e)
}

// check says what is wrong with moving n bytes between two buffers.
func check(into, src device.Buffer, n int64) error {
	if into == nil || src == nil {
		return fmt.Errorf("moving %d bytes to or from no buffer", n)
	}
	if n < 0 || n > src.Size() || n > into.Size() {
		return fmt.Errorf("moving %d bytes from a buffer of %d to one of %d", n, src.Size(), into.Size())
	}
	return nil
}

// on returns a buffer that must be of that GPU.
func (d *Device) on(b device.Buffer) (*Buffer, error) {
	own, ok := b.(*Buffer)
	if !ok || !own.device.same(d.gpu) || own.Address() == 0 {
		return nil, fmt.Errorf("%s: moving to or from a buffer that isn't this GPU's, or was freed", d.name)
	}
	return own, nil
}
