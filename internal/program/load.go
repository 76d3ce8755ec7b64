package program

import (
	"context"
	"sync"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// loader loads the weights and caches of one runner. It keeps the first error, and the functions
// that free what was loaded.
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

// Shared is a matrix that several layers use, such as the token table of a model whose output head
// is tied to it. If several of these layers are on one device, the matrix is loaded there once.
// The programs of these layers may be loaded concurrently.
type Shared struct {
	matrix kernels.Matrix
	mu     sync.Mutex
	copies map[device.Device]*loaded
}

// loaded is a shared matrix on one device.
type loaded struct {
	weight kernels.Weight
	users  int // the number of runners that use it
}

// NewShared returns a matrix for use in several programs. Its name must differ from that of the
// model's other shared matrices.
func NewShared(m kernels.Matrix) *Shared {
	return &Shared{matrix: m, copies: map[device.Device]*loaded{}}
}

// load returns the matrix on the queue's device, and a function that the caller must call when it
// has no more use for it. The last user's call frees the matrix.
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
		c = &loaded{weight: w}
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
