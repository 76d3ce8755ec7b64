package arch

import (
	"context"
	"sync"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// weights loads the matrices of one runner and frees them with it. It keeps the
// first error, so that a layer loads as a list of its parts.
type weights struct {
	ctx   context.Context
	queue kernels.Queue
	free  []func() error
	err   error
}

func (w *weights) pack(m kernels.Matrix) kernels.Weight {
	if w.err != nil {
		return nil
	}
	p, err := w.queue.Pack(w.ctx, m)
	if err != nil {
		w.err = err
		return nil
	}
	w.free = append(w.free, p.Free)
	return p
}

func (w *weights) cache(s kernels.CacheSpec) kernels.Cache {
	if w.err != nil {
		return nil
	}
	c, err := w.queue.NewCache(s)
	if err != nil {
		w.err = err
		return nil
	}
	w.free = append(w.free, c.Free)
	return c
}

// Close frees what was loaded and returns the first error.
func (w *weights) Close() error {
	var first error
	for _, free := range w.free {
		if err := free(); err != nil && first == nil {
			first = err
		}
	}
	w.free = nil
	return first
}

// loaded is the error of all the loading; what was loaded before it is freed.
func (w *weights) loaded() error {
	if w.err != nil {
		_ = w.Close() // the first error tells more
	}
	return w.err
}

// shared is a matrix that several layers use: on a device where more than one
// of them is loaded it lies once.
type shared struct {
	matrix kernels.Matrix
	mu     sync.Mutex
	copies map[device.Device]*copied
}

type copied struct {
	weight kernels.Weight
	users  int
}

func (w *weights) share(s *shared) kernels.Weight {
	if w.err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := w.queue.Device()
	c := s.copies[d]
	if c == nil {
		p, err := w.queue.Pack(w.ctx, s.matrix)
		if err != nil {
			w.err = err
			return nil
		}
		c = &copied{weight: p}
		if s.copies == nil {
			s.copies = map[device.Device]*copied{}
		}
		s.copies[d] = c
	}
	c.users++
	w.free = append(w.free, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.users--; c.users > 0 {
			return nil
		}
		delete(s.copies, d)
		return c.weight.Free()
	})
	return c.weight
}

// quantized returns the widest row that products with these matrices read in
// quantized form.
func quantized(matrices ...kernels.Matrix) (widest int) {
	for _, m := range matrices {
		if m.Type.Quantized() {
			widest = max(widest, m.Cols)
		}
	}
	return widest
}
