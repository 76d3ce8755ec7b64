package device

import "context"

// Transfer moves activations from one device's memory to another's. The stage that
// receives them owns it, and uses it from one goroutine at a time. NewTransfer chooses how
// the bytes are moved: in place without a copy, by a copy from GPU to GPU, or through host
// memory. Stages need not know which.
type Transfer interface {
	// Move makes the first n bytes of src available, once ready is done, to operations
	// enqueued on the receiving queue after the call. It returns the buffer that holds the
	// bytes: src itself if the receiver can read it in place, and into otherwise. If the
	// host copies the bytes, Move waits for ready, or until ctx ends. It must not be called
	// between the queue's Begin and End.
	//
	// into must not be in use when Move is called. Until an event that the receiving queue
	// records afterwards is done, src must not be modified and into must not be used
	// elsewhere. Any error, including ready's, is returned by Move or by that event. When
	// Move returns an error, nothing that it enqueued still runs.
	Move(ctx context.Context, into, src Buffer, n int64, ready Event) (Buffer, error)

	// InPlace reports whether Move always returns src, so that into is not needed.
	InPlace() bool

	// Close waits for the transfer's copies and releases its resources.
	Close() error
}

// Peer is implemented by a device that may have a faster way of moving data to or from
// another device, such as a copy from GPU to GPU.
type Peer interface {
	// TransferTo returns a transfer from this device to the queue's device. ok is false if
	// the device has no special way to do so.
	TransferTo(to Queue) (t Transfer, ok bool, err error)

	// TransferFrom returns a transfer from another device to a queue of this device. ok is
	// false if the device has no special way to do so.
	TransferFrom(from Device, to Queue) (t Transfer, ok bool, err error)
}

// NewTransfer returns the fastest transfer from a device to a receiving queue: that of a
// device that implements Peer, or one in place if the two devices share a memory, or else
// one through the host's memory. The last works between any two devices; on each side that
// is not in the host's memory it uses a queue of its own and two staging buffers of 1 MiB.
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

// following is the transfer between two queues of one device that works asynchronously to
// the host. It copies nothing: the receiving queue waits for the event.
type following struct{ to Queue }

func (t following) Move(_ context.Context, _, src Buffer, _ int64, ready Event) (Buffer, error) {
	t.to.Begin()
	defer t.to.End()
	t.to.After(ready)
	return src, nil
}

func (following) InPlace() bool { return true }
func (following) Close() error  { return nil }

// inPlace is the transfer between two devices with HostMemory. It copies nothing: the host
// waits for the event.
type inPlace struct{}

func (inPlace) Move(ctx context.Context, _, src Buffer, _ int64, ready Event) (Buffer, error) {
	return src, ready.Wait(ctx)
}

func (inPlace) InPlace() bool { return true }
func (inPlace) Close() error  { return nil }

// Done is an event that is always done and has no error.
var Done Event = done{}

type done struct{}

func (done) Wait(context.Context) error { return nil }
