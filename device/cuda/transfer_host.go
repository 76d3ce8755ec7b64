package cuda

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
)

// fromHost brings what lies in the host's memory to a GPU: the host copies it to
// pinned memory, the GPU copies that beside what it computes, and the receiving queue
// goes on after that copy.
type fromHost struct {
	*courier
	to device.Queue
}

func newFromHost(d *Device, to device.Queue) (*fromHost, error) {
	c, err := newCourier(d)
	if err != nil {
		return nil, err
	}
	return &fromHost{c, to}, nil
}

// Move waits for ready, whose error it returns.
func (t *fromHost) Move(ctx context.Context, into, src device.Buffer, n int64, ready device.Event) (device.Buffer, error) {
	if err := check(into, src, n); err != nil {
		return nil, err
	}
	if _, err := t.queue.device.on(into); err != nil {
		return nil, err
	}
	if err := ready.Wait(ctx); err != nil {
		return nil, err
	}
	mem := src.Bytes()
	if int64(len(mem)) < n {
		return nil, errNotInHost(src)
	}
	first := t.turn
	for at := int64(0); at < n; at += pieceBytes {
		p, err := t.next(ctx)
		if err != nil && ctx.Err() == nil && t.turn-first <= len(t.pieces) {
			err = nil // it is of an earlier Move
		}
		if err != nil {
			t.settle()
			return nil, err
		}
		part := p.mem[:min(pieceBytes, n-at)]
		copy(part, mem[at:])
		t.queue.Begin()
		t.queue.Upload(into, at, part)
		t.queue.Record(p.copied)
		t.queue.End()
	}
	t.to.Begin()
	defer t.to.End()
	for turn := max(first, t.turn-2); turn < t.turn; turn++ {
		t.to.After(t.pieces[turn%2].copied)
	}
	return into, nil
}

// InPlace returns false.
func (t *fromHost) InPlace() bool { return false }

// toHost brings what lies on a GPU to the host's memory: once it is ready, the GPU
// copies it to pinned memory beside what it computes, and the host from there.
type toHost struct {
	*courier
	from *Device
}

func newToHost(from *Device) (*toHost, error) {
	c, err := newCourier(from)
	if err != nil {
		return nil, err
	}
	return &toHost{c, from}, nil
}

// Move waits for ready, whose error it returns, and for the copies. Only what is
// ready is copied, so that nothing is left to run when ctx ends.
func (t *toHost) Move(ctx context.Context, into, src device.Buffer, n int64, ready device.Event) (device.Buffer, error) {
	if err := check(into, src, n); err != nil {
		return nil, err
	}
	if _, err := t.from.on(src); err != nil {
		return nil, err
	}
	mem := into.Bytes()
	if int64(len(mem)) < n {
		return nil, errNotInHost(into)
	}
	if err := ready.Wait(ctx); err != nil {
		return nil, err
	}
	asked := int64(0) // bytes of which the copy is enqueued
	for at := int64(0); at < n; {
		// Two pieces are on their way before the first is waited for.
		for ; asked < n && asked < at+2*pieceBytes; asked += pieceBytes {
			p := &t.pieces[(asked/pieceBytes)%2]
			t.queue.Begin()
			t.queue.Download(p.mem[:min(pieceBytes, n-asked)], src, asked)
			t.queue.Record(p.copied)
			t.queue.End()
		}
		p := &t.pieces[(at/pieceBytes)%2]
		if err := p.copied.Wait(context.Background()); err != nil {
			t.settle()
			return nil, err
		}
		at += int64(copy(mem[at:n], p.mem))
	}
	return into, nil
}

// InPlace returns false.
func (t *toHost) InPlace() bool { return false }

func errNotInHost(b device.Buffer) error {
	return fmt.Errorf("%s: moving a buffer that was freed, or isn't in the host's memory", b.Device().Info().Name)
}
