package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leat-dev/leat/device"
)

// bench times what is enqueued on a queue.
type bench struct {
	q      device.Queue
	done   device.Event
	least  time.Duration // that a measurement takes
	rounds int           // of which the fastest counts
}

// mostRepeats bounds how often a measurement enqueues what it times.
const mostRepeats = 2000

func newBench(q device.Queue, s sizes) (*bench, error) {
	done, err := q.NewEvent()
	return &bench{q, done, s.least, s.repeats}, err
}

// once runs ops and waits for them, past the end of ctx too: what they use is freed
// next.
func (b *bench) once(ctx context.Context, ops func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.q.Begin()
	ops()
	b.q.Record(b.done)
	b.q.End()
	return b.done.Wait(context.WithoutCancel(ctx))
}

// time returns how long ops take, on average of as many as fill b.least, in the
// fastest of the rounds. The queue is kept full, so that launching counts only where it
// takes longer than what is launched.
func (b *bench) time(ctx context.Context, ops func()) (time.Duration, error) {
	if err := b.once(ctx, ops); err != nil { // allocates, and brings code onto the GPU
		return 0, err
	}
	began := time.Now()
	if err := b.once(ctx, ops); err != nil {
		return 0, err
	}
	n := int(min(b.least/max(1, time.Since(began)), mostRepeats-1)) + 1
	best := time.Duration(0)
	for i := range b.rounds {
		began := time.Now()
		err := b.once(ctx, func() {
			for range n {
				ops()
			}
		})
		if err != nil {
			return 0, err
		}
		if took := max(1, time.Since(began)/time.Duration(n)); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// arena is things on the device that are freed together. The first error stays.
type arena struct {
	held []interface{ Free() error }
	err  error
}

// alloc returns a buffer and its address on the device.
func (a *arena) alloc(d device.Device, size int64) (device.Buffer, uint64) {
	if a.err != nil {
		return nil, 0
	}
	buf, err := d.Alloc(size)
	if err != nil {
		a.err = err
		return nil, 0
	}
	a.held = append(a.held, buf)
	at, ok := buf.(device.Addressable)
	if !ok {
		a.err = fmt.Errorf("%s: its memory has no addresses", d.Info().Name)
		return nil, 0
	}
	return buf, at.Address()
}

// keep has the arena free v, unless it came with an error.
func keep[T interface{ Free() error }](a *arena, v T, err error) T {
	if err != nil {
		a.err = errors.Join(a.err, err)
	} else {
		a.held = append(a.held, v)
	}
	return v
}

func (a *arena) free() error {
	var err error
	for _, h := range slices.Backward(a.held) {
		err = errors.Join(err, h.Free())
	}
	a.held = nil
	return err
}

// fill writes random bytes.
func fill(b []byte, rng *rand.Rand) {
	for i := 0; i < len(b); {
		for v, n := rng.Uint64(), 0; n < 8 && i < len(b); v, n, i = v>>8, n+1, i+1 {
			b[i] = byte(v)
		}
	}
}
