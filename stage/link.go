package stage

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrClosed says that a link, or what stands on it, has been closed.
var ErrClosed = errors.New("closed")

// Link joins two stages: a bounded queue of batches with one receiver and one
// sender, or with Shared several. Its plain case is a Go channel; a stage on another host would be
// behind another.
type Link interface {
	// Send hands the batch, and its ownership, to the receiver. It blocks
	// while the link is full, until ctx ends.
	Send(ctx context.Context, b *Batch) error

	// TrySend is Send that doesn't block: it reports whether the link had room.
	TrySend(b *Batch) bool

	// Recv takes the next batch. After Close and the last batch it returns
	// ErrClosed.
	Recv(ctx context.Context) (*Batch, error)

	// Len returns how many batches wait in the link.
	Len() int

	// Close says that nothing more will be sent. The sender calls it, once.
	Close()
}

// NewLink returns a link within the process that holds up to depth batches; 0
// hands them from goroutine to goroutine.
func NewLink(depth int) Link { return channel(make(chan *Batch, depth)) }

type channel chan *Batch

func (c channel) Send(ctx context.Context, b *Batch) error {
	select { // the plain case first: a select of one costs half of one of two
	case c <- b:
		return nil
	default:
	}
	select {
	case c <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c channel) TrySend(b *Batch) bool {
	select {
	case c <- b:
		return true
	default:
		return false
	}
}

func (c channel) Recv(ctx context.Context) (*Batch, error) {
	select {
	case b, open := <-c:
		if !open {
			return nil, ErrClosed
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c channel) Len() int { return len(c) }
func (c channel) Close()   { close(c) }

// Shared returns the link for so many senders, each of which closes it once: it is
// closed with the last of them.
func Shared(l Link, senders int) Link {
	if senders == 1 {
		return l
	}
	s := &shared{Link: l}
	s.senders.Store(int32(senders))
	return s
}

type shared struct {
	Link
	senders atomic.Int32
}

func (s *shared) Close() {
	if s.senders.Add(-1) == 0 {
		s.Link.Close()
	}
}
