package driver

import (
	"errors"

	"github.com/leat-dev/leat/device"
)

// PieceBytes is how much goes through a piece of pinned memory at once: see package
// device, whose transfers through the host's memory have pieces as large.
const PieceBytes = 1 << 20

// detour is pinned memory between two GPUs of which one doesn't reach the other: two
// pieces that the sender fills and the receiver empties in turn. Each waits for the
// other's events by itself, so that the host needn't.
type detour struct {
	sends    *Queue // of the sender
	receiver *Device
	pieces   [2]pass
	turn     int
}

// pass is a piece of pinned memory and the driver's events around it.
type pass struct {
	mem     []byte
	filled  uintptr // of the sender
	emptied uintptr // of the receiver
	used    bool    // emptied was recorded
}

func newDetour(from, receiver *Device) (*detour, error) {
	sends, err := from.newCopyQueue()
	if err != nil {
		return nil, err
	}
	t := &detour{sends: sends, receiver: receiver}
	for i := range t.pieces {
		p := &t.pieces[i]
		if p.mem, err = from.pin(PieceBytes); err != nil {
			break
		}
		if p.filled, err = from.rawEvent(); err != nil {
			break
		}
		if p.emptied, err = receiver.rawEvent(); err != nil {
			break
		}
	}
	if err != nil {
		_ = t.close() // the first error tells more
		return nil, err
	}
	return t, nil
}

// rawEvent returns an event of the driver.
func (d *Device) rawEvent() (uintptr, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, err
	}
	return d.newEventHandle(v.calls)
}

// move enqueues all parts on both GPUs. What goes wrong is the error of one of the
// trip's events, and both tell when nothing of it runs any more.
func (t *detour) move(q *Queue, dst, src *Buffer, n int64, ready device.Event, trip *trip) {
	q.Begin()
	defer q.End()
	t.within(func() { t.sends.After(ready) })
	for at := int64(0); at < n && q.ready("a copy"); at += PieceBytes {
		p := &t.pieces[t.turn%2]
		t.turn++
		part := p.mem[:min(PieceBytes, n-at)]
		if !t.fill(p, part, src, at) {
			break
		}
		q.shared(q.visit.calls.StreamWait(q.stream, p.filled))
		q.Upload(dst, at, part)
		if p.used = q.did(q.visit.calls.EventRecord(p.emptied, q.stream)); !p.used {
			q.did(q.visit.calls.StreamSynchronize(q.stream)) // the sender wouldn't wait for it
		}
	}
	q.Record(trip.arrived)
	t.within(func() { t.sends.Record(trip.sent) })
}

// fill enqueues the sender's part and says whether the receiver may wait for it.
func (t *detour) fill(p *pass, part []byte, src *Buffer, at int64) bool {
	q := t.sends
	q.Begin()
	defer q.End()
	if p.used && q.ready("a copy") {
		q.shared(q.visit.calls.StreamWait(q.stream, p.emptied))
	}
	q.Download(part, src, at)
	return q.ready("a copy") && q.did(q.visit.calls.EventRecord(p.filled, q.stream))
}

// within visits the sender, beside the receiver.
func (t *detour) within(do func()) {
	t.sends.Begin()
	defer t.sends.End()
	do()
}

// close waits for the sender. The receiver's part is done.
func (t *detour) close() error {
	from := t.sends.device
	errs := []error{t.sends.Close()}
	for _, p := range t.pieces {
		errs = append(errs, from.destroy(p.filled), t.receiver.destroy(p.emptied))
		if p.mem != nil {
			errs = append(errs, from.unpin(p.mem))
		}
	}
	return errors.Join(errs...)
}

// destroy gives an event of the driver back. A GPU that was lost has none any more.
func (d *Device) destroy(event uintptr) error {
	if event == 0 {
		return nil
	}
	v := d.visit()
	defer v.leave()
	err := v.enter()
	if err == nil {
		err = d.check(v.calls.EventDestroy(event))
	}
	if d.lost.Load() != nil {
		return nil
	}
	return err
}
