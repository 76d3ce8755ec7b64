package cuda

import (
	"context"
	"errors"
)

// pieceBytes is how much goes through a piece of pinned memory at once. What is
// larger goes in turns through two of them, so that one is filled while the other is
// emptied. One copy of a MiB takes some ten times as long as enqueuing it.
const pieceBytes = 1 << 20

// piece is pinned memory, and the event that says when a copy to or from it is done.
type piece struct {
	mem    []byte
	copied *Event
}

// courier copies through two pieces of pinned memory, on a queue of its own, so that
// copies go on beside what the GPU computes.
type courier struct {
	queue  *Queue
	pieces [2]piece
	turn   int
}

func newCourier(d *Device) (*courier, error) {
	c := &courier{}
	if err := c.prepare(d); err != nil {
		_ = c.Close() // the first error tells more
		return nil, err
	}
	return c, nil
}

func (c *courier) prepare(d *Device) (err error) {
	if c.queue, err = d.newQueue(); err != nil {
		return err
	}
	c.queue.untimed = true
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.mem, err = d.pin(pieceBytes); err != nil {
			return err
		}
		if p.copied, err = c.queue.newEvent(); err != nil {
			return err
		}
	}
	return nil
}

// next returns the piece whose turn it is, once it is free, and the error of its
// last copy, which is ctx's if that ends first.
func (c *courier) next(ctx context.Context) (*piece, error) {
	p := &c.pieces[c.turn%2]
	c.turn++
	return p, p.copied.Wait(ctx)
}

// settle waits for the copies under way, which wait for nothing but each other.
func (c *courier) settle() {
	for _, p := range c.pieces {
		_ = p.copied.Wait(context.Background()) // an error before it tells more
	}
}

// Close waits for the copies under way. Their errors were those of events. A second
// Close does nothing.
func (c *courier) Close() error {
	if c.queue == nil {
		return nil
	}
	d := c.queue.device
	errs := []error{c.queue.Close()}
	for _, p := range c.pieces {
		if p.mem != nil {
			errs = append(errs, d.unpin(p.mem))
		}
	}
	*c = courier{}
	return errors.Join(errs...)
}
