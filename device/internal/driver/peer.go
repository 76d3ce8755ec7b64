package driver

import (
	"context"
	"errors"

	"github.com/leat-dev/leat/device"
)

// between is the transfer from one GPU to another. It copies on a separate queue of the
// receiver, so that both GPUs compute meanwhile, and the host doesn't wait.
type between struct {
	from   *Device
	to     device.Queue // the receiving queue
	copies *Queue       // the receiver's queue for copies
	detour *detour      // nil if the receiver can read the sender's memory
	trips  []*trip      // one for each Move in flight, and those that are free
}

// trip is the events of one Move: arrived is the receiver's. sent is the sender's, which
// takes part only in a detour, and nil otherwise.
type trip struct{ arrived, sent *Event }

func newBetween(from, receiver *Device, to device.Queue) (*between, error) {
	t := &between{from: from, to: to}
	if err := t.prepare(receiver); err != nil {
		_ = t.Close() // the first error tells more
		return nil, err
	}
	return t, nil
}

func (t *between) prepare(receiver *Device) (err error) {
	if t.copies, err = receiver.newCopyQueue(); err != nil {
		return err
	}
	direct, err := receiver.reach(t.from)
	if err != nil || direct {
		return err
	}
	t.detour, err = newDetour(t.from, receiver)
	return err
}

// reach enables the GPU to read the sender's memory, and returns whether it can.
func (d *Device) reach(from *Device) (bool, error) {
	if err := d.use("reaching " + from.name); err != nil {
		return false, err
	}
	ok, err := d.reachOnce(from)
	if e := d.drop(); err == nil {
		err = e
	}
	return ok, err
}

// reachOnce does what reach does. It remembers the result.
func (d *Device) reachOnce(from *Device) (bool, error) {
	d.reaching.Lock()
	defer d.reaching.Unlock()
	if ok, known := d.reached[from.gpu]; known {
		return ok, nil
	}
	ok, err := d.enablePeer(from)
	if ok {
		ok, err = d.proves(from)
	}
	if err == nil {
		d.reached[from.gpu] = ok
	}
	return ok, err
}

// enablePeer makes the driver enable access to the sender's memory, and returns whether it
// has.
func (d *Device) enablePeer(from *Device) (bool, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return false, err
	}
	can, failed := v.calls.CanAccessPeer(d.handle, from.handle)
	if !can || failed != nil {
		return false, d.named(failed) // not check, as the other GPU may be the one that is lost
	}
	can, failed = v.calls.EnablePeer(from.context)
	return can, d.check(failed)
}

// copyPeer enqueues a copy of n bytes from another GPU to the queue's.
func (q *Queue) copyPeer(dst, src *Buffer, n int64) {
	if n > 0 && q.ready("a copy") {
		from := src.device
		q.didWithPeer(q.visit.calls.CopyPeer(uintptr(dst.Address()), q.device.context, uintptr(src.Address()), from.context, n, q.stream))
	}
}

// Move enqueues the copy. An error of ready or of the copy becomes that of the next event
// recorded on the receiving queue.
func (t *between) Move(ctx context.Context, into, src device.Buffer, n int64, ready device.Event) (device.Buffer, error) {
	if err := check(into, src, n); err != nil {
		return nil, err
	}
	dst, err := t.copies.device.on(into)
	if err != nil {
		return nil, err
	}
	own, err := t.from.on(src)
	if err != nil {
		return nil, err
	}
	if _, ok := ready.(*Event); !ok {
		if err := ready.Wait(ctx); err != nil {
			return nil, err
		}
		ready = device.Done
	}
	trip, err := t.trip()
	if err != nil {
		return nil, err
	}
	if t.detour != nil {
		t.detour.move(t.copies, dst, own, n, ready, trip)
	} else {
		t.copy(dst, own, n, ready, trip.arrived)
	}
	t.to.Begin()
	defer t.to.End()
	if trip.sent != nil {
		t.to.After(trip.sent)
	}
	t.to.After(trip.arrived)
	return into, nil
}

// copy enqueues a copy directly from GPU to GPU.
func (t *between) copy(dst, src *Buffer, n int64, ready device.Event, arrived *Event) {
	q := t.copies
	q.Begin()
	defer q.End()
	q.After(ready)
	q.copyPeer(dst, src, n)
	q.Record(arrived)
}

// trip returns a trip that is not in use.
func (t *between) trip() (*trip, error) {
	for _, trip := range t.trips {
		if trip.arrived.Done() && (trip.sent == nil || trip.sent.Done()) {
			return trip, nil
		}
	}
	var new trip
	var err error
	if new.arrived, err = t.copies.newEvent(); err != nil {
		return nil, err
	}
	if t.detour != nil {
		if new.sent, err = t.detour.sends.newEvent(); err != nil {
			return nil, err
		}
	}
	t.trips = append(t.trips, &new)
	return &new, nil
}

// InPlace returns false.
func (t *between) InPlace() bool { return false }

// Close waits for the copies in progress. Further calls have no effect.
func (t *between) Close() error {
	var errs []error
	if t.copies != nil {
		errs = append(errs, t.copies.Close())
	}
	if t.detour != nil {
		errs = append(errs, t.detour.close())
		t.detour = nil
	}
	return errors.Join(errs...)
}

// Detours reports whether t copies from GPU to GPU through pinned host memory, because the
// receiver can't read the sender's memory.
func Detours(t device.Transfer) bool {
	b, ok := t.(*between)
	return ok && b.detour != nil
}
