package device

import (
	"context"
	"errors"
	"fmt"
)

// pieceBytes is the size of a staging buffer. A transfer of more bytes alternates between
// two such buffers, so that one is filled while the other is emptied. At 1 MiB, the copy
// takes about ten times as long as enqueuing it.
const pieceBytes = 1 << 20

// staged moves activations through the host's memory: it downloads a piece from the sender,
// copies it on the host, and uploads it to the receiver. It works between devices of any
// two kinds, because it uses only the methods of Device and Queue. A side whose buffers are
// in the host's memory has no courier: the host reads or writes those buffers in place.
//
// The host waits for ready and for the downloads. For the uploads, the receiving queue
// waits.
type staged struct {
	from, to Info
	receiver Queue
	down, up *courier // nil if that side's memory is the host's
	asked    int64    // bytes of the current Move whose download is enqueued
}

// newStaged returns a transfer from a device to a queue of another device. At least one of
// the two devices must not have HostMemory.
func newStaged(from Device, receiver Queue) (Transfer, error) {
	t := &staged{from: from.Info(), to: receiver.Device().Info(), receiver: receiver}
	var err error
	if !t.from.HostMemory {
		t.down, err = newCourier(from)
	}
	if err == nil && !t.to.HostMemory {
		t.up, err = newCourier(receiver.Device())
	}
	if err != nil {
		_ = t.Close() // the first error tells more
		return nil, fmt.Errorf("a transfer from %s to %s: %w", t.from.Name, t.to.Name, err)
	}
	return t, nil
}

// Move waits for ready and for the downloads, and returns their errors. An upload's error
// is returned by Move if its piece is needed again, and otherwise becomes that of the
// receiving queue's next event.
func (t *staged) Move(ctx context.Context, into, src Buffer, n int64, ready Event) (Buffer, error) {
	if err := t.check(into, src, n); err != nil {
		return nil, err
	}
	if err := ready.Wait(ctx); err != nil {
		return nil, err
	}
	t.asked = 0
	if t.up != nil {
		t.up.used = 0
	}
	for at := int64(0); at < n; at += pieceBytes {
		if err := t.carry(ctx, into, src, at, n); err != nil {
			t.down.settle()
			t.up.settle()
			return nil, err
		}
	}
	if t.up != nil {
		t.up.follow(t.receiver)
	}
	return into, nil
}

// check returns an error if n bytes can't be moved from src to into.
func (t *staged) check(into, src Buffer, n int64) error {
	if into == nil || src == nil {
		return fmt.Errorf("moving %d bytes from %s to %s: a buffer is nil", n, t.from.Name, t.to.Name)
	}
	if n < 0 || n > src.Size() || n > into.Size() {
		return fmt.Errorf("moving %d bytes from a buffer of %d to one of %d", n, src.Size(), into.Size())
	}
	if err := belongs(src, &t.from, n); err != nil {
		return err
	}
	return belongs(into, &t.to, n)
}

// belongs returns an error if b is not a buffer of the device or, for a device with
// HostMemory, is not in the host's memory with at least n bytes.
func belongs(b Buffer, d *Info, n int64) error {
	switch {
	case d.HostMemory && int64(len(b.Bytes())) < n:
		return fmt.Errorf("%s: moving a buffer that was freed, or isn't in the host's memory", b.Device().Info().Name)
	case !d.HostMemory && b.Device().Info().Name != d.Name:
		return fmt.Errorf("%s: moving to or from a buffer of %s", d.Name, b.Device().Info().Name)
	}
	return nil
}

// carry moves one piece, of the n bytes of a Move, from offset at on.
func (t *staged) carry(ctx context.Context, into, src Buffer, at, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	part, err := t.fetch(src, at, n)
	if err != nil {
		return err
	}
	return t.hand(ctx, into, at, part)
}

// fetch returns the piece of src's first n bytes from offset at on, once it is in the
// host's memory. The piece is valid until fetch is called for the second time after that.
func (t *staged) fetch(src Buffer, at, n int64) ([]byte, error) {
	if t.down == nil {
		return src.Bytes()[at:min(at+pieceBytes, n)], nil
	}
	// Enqueue the downloads of two pieces before waiting for the first. A staging buffer
	// is used again only when the caller has finished with its former contents.
	for ; t.asked < n && t.asked < at+2*pieceBytes; t.asked += pieceBytes {
		p := t.down.piece(t.asked)
		t.down.queue.Begin()
		t.down.queue.Download(p.mem[:min(pieceBytes, n-t.asked)], src, t.asked)
		t.down.queue.Record(p.copied)
		t.down.queue.End()
	}
	// Wait without ctx: nothing may still write to the piece when Move returns. The wait is
	// short, because ready is done and so the copies wait only for one another.
	p := t.down.piece(at)
	return p.mem[:min(pieceBytes, n-at)], p.copied.Wait(context.Background())
}

// hand copies a piece to the receiver's buffer, at an offset of into.
func (t *staged) hand(ctx context.Context, into Buffer, at int64, part []byte) error {
	if t.up == nil {
		copy(into.Bytes()[at:], part)
		return nil
	}
	p, err := t.up.next(ctx)
	if err != nil {
		return err
	}
	own := p.mem[:copy(p.mem, part)]
	t.up.queue.Begin()
	t.up.queue.Upload(into, at, own)
	t.up.queue.Record(p.copied)
	t.up.queue.End()
	return nil
}

// InPlace returns false.
func (t *staged) InPlace() bool { return false }

// Close waits for the copies in progress. Further calls have no effect.
func (t *staged) Close() error { return errors.Join(t.down.close(), t.up.close()) }

// courier copies between a device and two staging buffers in host memory. It has a queue of
// its own, so that the device computes while it copies. A nil courier has no copies in
// progress; settle and close may be called on it.
type courier struct {
	queue  Queue
	pieces [2]piece
	turn   int // the number of uploads so far; its lowest bit selects the next piece
	used   int // how many of these uploads belong to the current Move
}

// piece is a staging buffer and the event of the latest copy to or from it.
type piece struct {
	mem    []byte
	pinned Buffer // the buffer that mem is of; nil if mem is Go memory
	copied Event
}

func newCourier(d Device) (*courier, error) {
	c := &courier{}
	if err := c.prepare(d); err != nil {
		_ = c.close() // the first error tells more
		return nil, err
	}
	return c, nil
}

func (c *courier) prepare(d Device) (err error) {
	if own, ok := d.(Copier); ok {
		c.queue, err = own.NewCopyQueue()
	} else {
		c.queue, err = d.NewQueue()
	}
	if err != nil {
		return err
	}
	pinner, pins := d.(Pinner)
	for i := range c.pieces {
		p := &c.pieces[i]
		if pins {
			if p.pinned, err = pinner.AllocHost(pieceBytes); err != nil {
				return err
			}
			p.mem = p.pinned.Bytes()
		} else {
			p.mem = make([]byte, pieceBytes)
		}
		if p.copied, err = c.queue.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// piece returns the staging buffer for the bytes from offset at on.
func (c *courier) piece(at int64) *piece { return &c.pieces[at/pieceBytes%2] }

// next returns the next staging buffer for an upload, once its previous upload is done. It
// returns that upload's error if it belonged to the current Move, or ctx's error.
func (c *courier) next(ctx context.Context) (*piece, error) {
	p := &c.pieces[c.turn%2]
	if err := p.copied.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c.used >= len(c.pieces) {
			return nil, err
		}
		// The error belongs to an earlier Move, whose event reported it.
	}
	c.turn++
	c.used++
	return p, nil
}

// follow makes a queue of the same device wait for the uploads of the current Move.
func (c *courier) follow(q Queue) {
	q.Begin()
	defer q.End()
	for back := min(c.used, len(c.pieces)); back > 0; back-- {
		q.After(c.pieces[(c.turn-back)%2].copied)
	}
}

// settle waits for the copies in progress. It takes no context, because they wait only for
// one another.
func (c *courier) settle() {
	if c == nil {
		return
	}
	for _, p := range c.pieces {
		_ = p.copied.Wait(context.Background()) // Move returns an earlier error
	}
}

// close waits for the copies in progress and frees the staging buffers. The errors of
// copies were reported by their events.
func (c *courier) close() error {
	if c == nil || c.queue == nil {
		return nil
	}
	errs := []error{c.queue.Close()}
	for _, p := range c.pieces {
		if p.pinned != nil {
			errs = append(errs, p.pinned.Free())
		}
	}
	*c = courier{}
	return errors.Join(errs...)
}
