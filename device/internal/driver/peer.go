package driver

import (
	"context"
	"errors"

	"github.com/leat-dev/leat/device"
)

// between brings what lies on one GPU to another, on a queue of the receiver's own
// for copies: beside what both compute, and without the host's waiting for anything.
type between struct {
	from   *Device
	to     device.Queue
	copies *Queue
	detour *detour // nil where the receiver reads the sender's memory
	trips  []*trip // as many as there were ever under way at once
}

// trip says when a Move is done: on the receiver, and on the sender, which has a part
// in it only by the detour.
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

// reach makes the sender's memory readable for the GPU, and says whether it is.
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

func (d *Device) reachOnce(from *Device) (bool, error) {
	d.reaching.Lock()
	defer d.reaching.Unlock()
	if ok, known := d.reached[from.gpu]; known {
		return ok, nil
	}
	ok, err := d.admit(from)
	if ok {
		ok, err = d.proves(from)
	}
	if err == nil {
		d.reached[from.gpu] = ok
	}
	return ok, err
}

// admit asks the driver for access to the sender's memory, and says whether there is.
func (d *Device) admit(from *Device) (bool, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return false, err
	}
	can, failed := v.calls.CanAccessPeer(d.handle, from.handle)
	if !can || failed != nil {
		return false, d.named(failed) // the other one may be at fault
	}
	can, failed = v.calls.EnablePeer(from.context)
	return can, d.check(failed)
}

// copyPeer copies from another GPU to the queue's.
func (q *Queue) copyPeer(dst, src *Buffer, n int64) {
	if n > 0 && q.ready("a copy") {
		from := src.device
		q.shared(q.visit.calls.CopyPeer(uintptr(dst.Address()), q.device.context, uintptr(src.Address()), from.context, n, q.stream))
	}
}

// Move enqueues the copy. ready's error becomes that of the next event recorded on
// the receiving queue, as does the copy's.
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

// copy copies from GPU to GPU.
func (t *between) copy(dst, src *Buffer, n int64, ready device.Event, arrived *Event) {
	q := t.copies
	q.Begin()
	defer q.End()
	q.After(ready)
	q.copyPeer(dst, src, n)
	q.Record(arrived)
}

// trip returns one that is done.
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

// Close waits for the copies under way. A second Close does nothing.
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

// Detours says that a transfer goes from GPU to GPU through pinned memory of the host,
// since the one can't read the other's.
func Detours(t device.Transfer) bool {
	b, ok := t.(*between)
	return ok && b.detour != nil
}
