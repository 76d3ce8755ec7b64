package device

import "context"

// Transfer carries activations from one device's memory to another's. The
// stage that receives owns it. How the bytes travel (not at all, by one copy,
// from GPU to GPU, through host memory that both reach) is decided when it is
// made, and the stages don't know.
type Transfer interface {
	// Move makes n bytes of src, from offset 0, available to work enqueued on
	// the receiving queue after the call, once ready is done. It returns the
	// buffer that holds them: src itself where the receiver can read it in
	// place, else into. Where the bytes are read by the host it waits for
	// ready, until ctx ends. It is called outside the queue's Begin and End.
	//
	// into must be free when Move is called. src must stay as it is, and into
	// be left alone, until an event is done that the receiving queue records
	// afterwards. What goes wrong, ready's error among it, is the error of that
	// event or of Move. Once Move has returned an error, nothing that it enqueued
	// still runs.
	Move(ctx context.Context, into, src Buffer, n int64, ready Event) (Buffer, error)

	// InPlace says that Move always returns src, so that no buffer to receive
	// into is needed.
	InPlace() bool
	Close() error
}

// Peer is implemented by a device that has a path of its own to or from
// another, such as a copy from GPU to GPU.
type Peer interface {
	// TransferTo returns the path from the device to the queue's device, or
	// ok false where there is none.
	TransferTo(to Queue) (t Transfer, ok bool, err error)
	// TransferFrom returns the path from another device to the queue, which
	// is the implementer's own.
	TransferFrom(from Device, to Queue) (t Transfer, ok bool, err error)
}

// NewTransfer returns the best path from a device to the queue that receives: one that
// either device has of its own, as a Peer; none, where they share a memory; else one
// through the host's memory, for which both have queues of their own and two pieces of
// a MiB each. So devices of any two kinds may be neighbours.
func NewTransfer(from Device, to Queue) (Transfer, error) {
	if p, ok := from.(Peer); ok {
		if t, ok, err := p.TransferTo(to); ok || err != nil {
			return t, err
		}
	}
	if p, ok := to.Device().(Peer); ok {
		if t, ok, err := p.TransferFrom(from, to); ok || err != nil {
			return t, err
		}
	}
	switch own, other := to.Device().Info(), from.Info(); {
	case own.HostMemory && other.HostMemory:
		return inPlace{}, nil
	case own.SharesMemory(other):
		return following{to}, nil
	}
	return newStaged(from, to)
}

// following joins queues of one device that works by itself: nothing moves, the
// receiving queue goes on after the other.
type following struct{ to Queue }

func (t following) Move(_ context.Context, _, src Buffer, _ int64, ready Event) (Buffer, error) {
	t.to.Begin()
	defer t.to.End()
	t.to.After(ready)
	return src, nil
}

func (following) InPlace() bool { return true }
func (following) Close() error  { return nil }

// inPlace joins two devices that share the host's memory: nothing moves.
type inPlace struct{}

func (inPlace) Move(ctx context.Context, _, src Buffer, _ int64, ready Event) (Buffer, error) {
	return src, ready.Wait(ctx)
}

func (inPlace) InPlace() bool { return true }
func (inPlace) Close() error  { return nil }

// Done is an event that is always done, without an error.
var Done Event = done{}

type done struct{}

func (done) Wait(context.Context) error { return nil }
