package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// gpu is the GPU with the op set, and what lies on it.
type gpu struct {
	*bench
	q kernels.Queue
	arena
}

// onGPU opens the GPU for f.
func (c *check) onGPU(f func(g *gpu) error) (err error) {
	var set device.Set
	defer func() { err = errors.Join(err, set.Close()) }()
	d, err := set.Open(c.device)
	if err != nil {
		return err
	}
	ops, err := kernels.For(d.Info().Kind)
	if err != nil {
		return err
	}
	q, err := ops.NewQueue(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	b, err := newBench(q, c.sizes)
	if err != nil {
		return err
	}
	g := &gpu{bench: b, q: q}
	defer func() { err = errors.Join(err, g.free()) }()
	return f(g)
}

// apart runs f with what it allocates freed at its end.
func (g *gpu) apart(f func() error) error {
	outer := g.arena
	g.arena = arena{}
	err := errors.Join(f(), g.free())
	g.arena = outer
	return err
}

// tensor is of random numbers.
func (g *gpu) tensor(ctx context.Context, rows, cols int) kernels.Tensor {
	t := kernels.Tensor{Rows: rows, Cols: cols, Type: kernels.F32}
	t.Buf, _ = g.alloc(g.q.Device(), t.Bytes())
	if g.err != nil {
		return t
	}
	rng := rand.New(rand.NewPCG(2, uint64(t.Bytes())))
	numbers := make([]float32, min(rows*cols, 1<<16))
	for i := range numbers {
		numbers[i] = rng.Float32()*2 - 1
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), 4*len(numbers))
	g.err = g.once(ctx, func() {
		for at := int64(0); at < t.Bytes(); at += int64(len(bytes)) {
			g.q.Upload(t.Buf, at, bytes[:min(int64(len(bytes)), t.Bytes()-at)])
		}
	})
	return t
}

// rows is a header on the GPU.
func (g *gpu) rows(ctx context.Context, h *kernels.Header) kernels.Rows {
	r := kernels.Rows{N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages)}
	r.Buf, _ = g.alloc(g.q.Device(), kernels.HeaderBytes(r.N, r.Outputs, r.Pages))
	if g.err == nil {
		g.err = g.once(ctx, func() { g.q.Upload(r.Buf, 0, h.Encode()) })
	}
	return r
}

// pack is a matrix on the GPU.
func (g *gpu) pack(ctx context.Context, m kernels.Matrix) kernels.Weight {
	if g.err != nil {
		return nil
	}
	w, err := g.q.Pack(ctx, m)
	return keep(&g.arena, w, err)
}

// work is what an op does at least.
type work struct {
	bytes float64 // that it reads and writes
	macs  float64 // multiply-adds
	rate  float64 // at most so many a second; 0: not known
}

// ideal is how long it takes at the ceilings.
func (c *check) ideal(w work) time.Duration {
	seconds := 0.0
	if c.most.copied > 0 {
		seconds = w.bytes / c.most.copied
	}
	if w.rate > 0 {
		seconds = max(seconds, w.macs/w.rate)
	}
	return time.Duration(seconds * float64(time.Second))
}

// ofCeiling says how near to that it came.
func (c *check) ofCeiling(w work, took time.Duration) string {
	return share(float64(c.ideal(w)), float64(took))
}

// fits says whether there is time for something more, of what took at most longest
// so far.
func fits(ctx context.Context, longest time.Duration) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(end) > longest+longest/2)
}
