package driver

import (
	"bytes"
	"context"
	"errors"

	"github.com/leat-dev/leat/device"
)

// proofBytes is the size of the test copy: small, because the GPUs' memory may be nearly
// full, and large enough that the right bytes can't be there by chance.
const proofBytes = 4 << 10

// proof is a test copy from one GPU's memory to another's. It is needed because on some
// machines the driver reports that a GPU can read another's memory although an IOMMU drops
// the data, without an error, so that all results would be wrong.
type proof struct {
	sends, receives *Queue
	src, dst        device.Buffer
}

// proves returns whether the GPU really reads the other's memory, for which access must be
// enabled. If there is not enough memory for the test it returns false, which makes
// transfers slower, but correct.
func (d *Device) proves(from *Device) (bool, error) {
	var p proof
	good, err := p.run(from, d)
	if e := p.close(); err == nil {
		err = e
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	return good && err == nil, err
}

func (p *proof) run(from, to *Device) (good bool, err error) {
	if p.sends, err = from.newQueue(); err != nil {
		return false, err
	}
	if p.receives, err = to.newQueue(); err != nil {
		return false, err
	}
	if p.src, err = from.Alloc(proofBytes); err != nil {
		return false, err
	}
	if p.dst, err = to.Alloc(proofBytes); err != nil {
		return false, err
	}
	sent, err := p.sends.newEvent()
	if err != nil {
		return false, err
	}
	received, err := p.receives.newEvent()
	if err != nil {
		return false, err
	}
	want, got := make([]byte, proofBytes), make([]byte, proofBytes)
	for i := range want {
		want[i] = byte(i*7+i>>8*13) | 1 // never zero, unlike all bytes of dst
	}
	visiting(p.sends, func() {
		p.sends.Upload(p.src, 0, want)
		p.sends.Record(sent)
	})
	visiting(p.receives, func() {
		p.receives.After(sent)
		p.receives.copyPeer(p.dst.(*Buffer), p.src.(*Buffer), proofBytes)
		p.receives.Download(got, p.dst, 0)
		p.receives.Record(received)
	})
	err = received.Wait(context.Background())
	return bytes.Equal(got, want), err
}

// visiting calls do between the queue's Begin and End.
func visiting(q *Queue, do func()) {
	q.Begin()
	defer q.End()
	do()
}

func (p *proof) close() error {
	var errs []error
	for _, q := range []*Queue{p.receives, p.sends} {
		if q != nil {
			errs = append(errs, q.Close())
		}
	}
	for _, b := range []device.Buffer{p.dst, p.src} {
		if b != nil {
			errs = append(errs, b.Free())
		}
	}
	return errors.Join(errs...)
}
