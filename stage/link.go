package stage

import (
	"context"
	"errors"
)

// ErrClosed is returned by operations on a link, or on something built on links, that
// has been closed.
var ErrClosed = errors.New("closed")

// Link is a bounded first-in, first-out queue of batches between two stages. Within a
// process, NewLink returns one. A user who runs stages in several processes implements
// Link on a connection, with [Message.AppendBinary] and [Message.UnmarshalBinary].
//
// One goroutine sends to a link and one receives from it, unless the implementation
// allows more.
type Link interface {
	// Send passes the batch, and its ownership, to the receiver. It blocks while the
	// link is full. If ctx ends before, it returns ctx's error, and the batch stays the
	// sender's.
	Send(ctx context.Context, b *Batch) error

	// TrySend is Send without blocking. It reports whether the batch was sent.
	TrySend(b *Batch) bool

	// Recv returns the next batch, which then belongs to the receiver. It blocks while
	// the link is empty. After the last batch of a closed link it returns ErrClosed.
	Recv(ctx context.Context) (*Batch, error)

	// Len returns how many batches are in the link.
	Len() int

	// Close tells the receiver that no more batches will be sent. The sender calls it,
	// once.
	Close()
}

// NewLink returns a link within the process that holds up to depth batches. With a
// depth of 0, Send returns only when the receiver has the batch. Any number of
// goroutines may send and receive.
func NewLink(depth int) Link { return channel(make(chan *Batch, depth)) }

type channel chan *Batch

func (c channel) Send(ctx context.Context, b *Batch) error {
	select { // a select with one case costs half as much as one with two
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
