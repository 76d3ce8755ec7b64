package driver

import (
	"bytes"
	"context"
	"errors"

	"github.com/leat-dev/leat/device"
)

// proofBytes is little, for the GPUs may be full, and more than arrives by chance.
const proofBytes = 4 << 10

// proof sends bytes from one GPU's memory to another's, to see whether they arrive. On
// some machines the driver says that GPUs reach each other, and what goes between them
// is lost in an IOMMU: without an error, and all results are wrong.
type proof struct {
	sends, receives *Queue
	src, dst        device.Buffer
}

// proves says whether the GPU really reads the other's memory, to which it has access.
// Where there is no room to see, it says no: then copies are slower, but right.
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
	letter, got := make([]byte, proofBytes), make([]byte, proofBytes)
	for i := range letter {
		letter[i] = byte(i*7+i>>8*13) | 1 // nowhere what dst holds
	}
	visiting(p.sends, func() {
		p.sends.Upload(p.src, 0, letter)
		p.sends.Record(sent)
	})
	visiting(p.receives, func() {
		p.receives.After(sent)
		p.receives.copyPeer(p.dst.(*Buffer), p.src.(*Buffer), proofBytes)
		p.receives.Download(got, p.dst, 0)
		p.receives.Record(received)
	})
	err = received.Wait(context.Background())
	return bytes.Equal(got, letter), err
}

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
