package device

import (
	"context"
	"errors"
	"fmt"
)

// pieceBytes is how much goes through a piece of host memory at once. What is larger
// goes in turns through two pieces, so that one is filled while the other is emptied.
// One copy of a MiB takes some ten times as long as enqueuing it.
const pieceBytes = 1 << 20

// staged carries activations through the host's memory: the sender downloads a piece,
// the host copies it, the receiver uploads it. It joins devices of any two kinds, since
// it asks no more of them than Device and Queue promise. A side whose buffers lie in
// the host's memory has no courier: the host reads or writes them where they are.
//
// The host waits for ready and for the downloads; the uploads the receiving queue waits
// for by itself.
type staged struct {
	from, to Info
	receiver Queue
	down, up *courier // nil where that side's memory is the host's
	asked    int64    // bytes of the Move under way whose download is enqueued
}

// newStaged makes the transfer from a device to a queue of another one, of which at
// least one has a memory of its own.
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

// Move waits for ready and for the downloads, whose errors it returns. An upload's
// error is that of the receiving queue's next event, or of Move where its piece is
// needed again.
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

// check says what is wrong with moving n bytes from src into a buffer.
func (t *staged) check(into, src Buffer, n int64) error {
	if into == nil || src == nil {
		return fmt.Errorf("moving %d bytes from %s to %s: to or from no buffer", n, t.from.Name, t.to.Name)
	}
	if n < 0 || n > src.Size() || n > into.Size() {
		return fmt.Errorf("moving %d bytes from a buffer of %d to one of %d", n, src.Size(), into.Size())
	}
	if err := belongs(src, &t.from, n); err != nil {
		return err
	}
	return belongs(into, &t.to, n)
}

// belongs says what is wrong with a buffer that must be of a device, or, where that
// one's memory is the host's, in there.
func belongs(b Buffer, d *Info, n int64) error {
	switch {
	case d.HostMemory && int64(len(b.Bytes())) < n:
		return fmt.Errorf("%s: moving a buffer that was freed, or isn't in the host's memory", b.Device().Info().Name)
	case !d.HostMemory && b.Device().Info().Name != d.Name:
		return fmt.Errorf("%s: moving to or from a buffer of %s", d.Name, b.Device().Info().Name)
	}
	return nil
}

// carry brings a piece of the first n bytes, from offset at on, over to the receiver.
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

// fetch returns a piece of the first n bytes of src, from at on, once it is in the
// host's memory. It is valid until the next fetch but one.
func (t *staged) fetch(src Buffer, at, n int64) ([]byte, error) {
	if t.down == nil {
		return src.Bytes()[at:min(at+pieceBytes, n)], nil
	}
	// Two pieces are on their way before the first is waited for. The first is asked
	// for again only when whoever called has done with it.
	for ; t.asked < n && t.asked < at+2*pieceBytes; t.asked += pieceBytes {
		p := t.down.piece(t.asked)
		t.down.queue.Begin()
		t.down.queue.Download(p.mem[:min(pieceBytes, n-t.asked)], src, t.asked)
		t.down.queue.Record(p.copied)
		t.down.queue.End()
	}
	// The copies wait for nothing but each other: ready is done. So this ends soon,
	// and must, for nothing may still write to the piece when Move returns.
	p := t.down.piece(at)
	return p.mem[:min(pieceBytes, n-at)], p.copied.Wait(context.Background())
}

// hand puts a piece where the receiver has it, at an offset of into.
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

// Close waits for the copies under way. A second Close does nothing.
func (t *staged) Close() error { return errors.Join(t.down.close(), t.up.close()) }

// courier copies between a device and two pieces of host memory, on a queue of its own,
// so that copies go on beside what the device computes. Its methods may be called on a
// nil courier, which has nothing under way.
type courier struct {
	queue  Queue
	pieces [2]piece
	turn   int // of which piece it is
	used   int // pieces that the Move under way has taken
}

// piece is host memory, and the event that says when a copy to or from it is done.
type piece struct {
	mem    []byte
	pinned Buffer // whose memory it is; nil where it is Go's
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

// piece is the one for the bytes from offset at on, where they are taken in order.
func (c *courier) piece(at int64) *piece { return &c.pieces[at/pieceBytes%2] }

// next returns the piece whose turn it is, once it is free, or the error of its last
// copy, if that belonged to this Move, or ctx's.
func (c *courier) next(ctx context.Context) (*piece, error) {
	p := &c.pieces[c.turn%2]
	if err := p.copied.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c.used >= len(c.pieces) {
			return nil, err
		}
		// It is of an earlier Move, whose event had it.
	}
	c.turn++
	c.used++
	return p, nil
}

// follow makes a queue of the same device go on after the copies of this Move.
func (c *courier) follow(q Queue) {
	q.Begin()
	defer q.End()
	for back := min(c.used, len(c.pieces)); back > 0; back-- {
		q.After(c.pieces[(c.turn-back)%2].copied)
	}
}

// settle waits for the copies under way, which wait for nothing but each other.
func (c *courier) settle() {
	if c == nil {
		return
	}
	for _, p := range c.pieces {
		_ = p.copied.Wait(context.Background()) // an error before it tells more
	}
}

// close waits for the copies under way, whose errors were those of events, and frees
// the pieces.
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
