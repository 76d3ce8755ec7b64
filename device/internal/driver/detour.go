package driver

import (
	"errors"

	"github.com/leat-dev/leat/device"
)

// PieceBytes is the size of a staging buffer in pinned memory. It is the same as in package
// device's transfers through the host's memory, for the same reason.
const PieceBytes = 1 << 20

// detour copies between two GPUs of which the receiver can't read the sender's memory. It
// has two staging buffers in pinned host memory, which the sender fills and the receiver
// empties alternately. The GPUs wait for each other's events, so the host need not wait.
type detour struct {
	sends    *Queue // the sender's queue for copies
	receiver *Device
	pieces   [2]piece
	turn     int // the number of pieces so far; its lowest bit selects the next buffer
}

// piece is a staging buffer and the driver's events for it.
type piece struct {
	mem     []byte
	filled  uintptr // an event of the sender
	emptied uintptr // an event of the receiver
	used    bool    // whether emptied was recorded
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

// rawEvent returns a new event of the driver.
func (d *Device) rawEvent() (uintptr, error) {
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, err
	}
	return d.newEventHandle(v.calls)
}

// move enqueues the copy of all pieces on both GPUs. An error is that of one of the trip's
// events. When both events are done, nothing that move enqueued still runs.
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
		q.didWithPeer(q.visit.calls.StreamWait(q.stream, p.filled))
		q.Upload(dst, at, part)
		if p.used = q.did(q.visit.calls.EventRecord(p.emptied, q.stream)); !p.used {
			q.did(q.visit.calls.StreamSynchronize(q.stream)) // as there is no event for the sender to wait for
		}
	}
	q.Record(trip.arrived)
	t.within(func() { t.sends.Record(trip.sent) })
}

// fill enqueues the sender's copy to a staging buffer, and reports whether the event filled
// was recorded, so that the receiver can wait for it.
func (t *detour) fill(p *piece, part []byte, src *Buffer, at int64) bool {
	q := t.sends
	q.Begin()
	defer q.End()
	if p.used && q.ready("a copy") {
		q.didWithPeer(q.visit.calls.StreamWait(q.stream, p.emptied))
	}
	q.Download(part, src, at)
	return q.ready("a copy") && q.did(q.visit.calls.EventRecord(p.filled, q.stream))
}

// within calls do between Begin and End of the sender's queue.
func (t *detour) within(do func()) {
	t.sends.Begin()
	defer t.sends.End()
	do()
}

// close waits for the sender's copies and frees the staging buffers. The receiver's copies
// must be done.
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

// destroy destroys an event of the driver; 0 is none. It returns no error if the GPU is
// lost, since its events are gone with it.
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
