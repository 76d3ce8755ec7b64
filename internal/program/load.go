package program

import (
	"context"
	"sync"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// loader loads the parts of one runner. It keeps the first error, and what is to
// be freed.
type loader struct {
	ctx   context.Context
	queue kernels.Queue
	free  []func() error
	err   error
}

func (l *loader) weight(w weight) kernels.Weight {
	if l.err != nil {
		return nil
	}
	var p kernels.Weight
	var free func() error
	if w.shared != nil {
		p, free, l.err = w.shared.load(l.ctx, l.queue)
	} else if p, l.err = l.queue.Pack(l.ctx, w.matrix); l.err == nil {
		free = p.Free
	}
	if l.err != nil {
		return nil
	}
	l.free = append(l.free, free)
	return p
}

func (l *loader) cache(s kernels.CacheSpec) kernels.Cache {
	if l.err != nil {
		return nil
	}
	var c kernels.Cache
	if c, l.err = l.queue.NewCache(s); l.err != nil {
		return nil
	}
	l.free = append(l.free, c.Free)
	return c
}

// Shared is a matrix that several layers use, such as the token table of a model
// whose output head is tied to it. On a device where more than one of them is
// loaded it lies once. Programs that share it may load at the same time.
type Shared struct {
	matrix kernels.Matrix
	mu     sync.Mutex
	copies map[device.Device]*shareable
}

// shareable is a shared matrix on one device.
type shareable struct {
	weight kernels.Weight
	users  int
}

// Share returns a matrix for several programs. Its name tells it from other
// shared matrices of the model.
func Share(m kernels.Matrix) *Shared {
	return &Shared{matrix: m, copies: map[device.Device]*shareable{}}
}

// load returns the matrix on the queue's device, and a function that gives it
// back. The last user's frees it.
func (s *Shared) load(ctx context.Context, q kernels.Queue) (kernels.Weight, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := q.Device()
	c := s.copies[d]
	if c == nil {
		w, err := q.Pack(ctx, s.matrix)
		if err != nil {
			return nil, nil, err
		}
		c = &shareable{weight: w}
		s.copies[d] = c
	}
	c.users++
	return c.weight, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.users--; c.users > 0 {
			return nil
		}
		delete(s.copies, d)
		return c.weight.Free()
	}, nil
}
