package pipeline

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/leat-dev/leat/stage"
)

// exit is the link out of a last stage whose device is not asynchronous. Sending a batch
// to it finishes the batch on the sender's goroutine, so that no other one has to wake.
type exit struct{ line *Line }

func (e exit) Send(ctx context.Context, b *stage.Batch) error {
	e.line.finish(ctx, b)
	return nil
}

func (e exit) TrySend(b *stage.Batch) bool {
	e.line.finish(context.Background(), b)
	return true
}

func (exit) Recv(context.Context) (*stage.Batch, error) { return nil, stage.ErrClosed }
func (exit) Len() int                                   { return 0 }
func (exit) Close()                                     {}

// finishAll finishes the batches that the last stage sends to a link, until the stage
// closes it.
func (l *Line) finishAll(ctx context.Context, end stage.Link) {
	defer l.inside.Enter()()
	returned := false
	defer mustReturn(&returned, "the handler of a line, or an observer,")
	for {
		b, err := end.Recv(ctx)
		if err != nil {
			break
		}
		l.finish(ctx, b)
	}
	returned = true
}

// mustReturn is deferred by goroutines that call user code and that other goroutines
// wait for. If the user code ends the goroutine with runtime.Goexit, the others would
// wait forever, and so mustReturn panics. It repeats a panic of the user code. user
// names that code in the message; *returned says that it has returned normally.
func mustReturn(returned *bool, user string) {
	if *returned {
		return
	}
	if value := recover(); value != nil {
		panic(value)
	}
	panic("pipeline: " + user + " called runtime.Goexit")
}

// finish waits until the devices have finished a batch that has left the last stage,
// updates the health of its route, and passes the batch to the handler.
func (l *Line) finish(ctx context.Context, b *stage.Batch) {
	err := b.Wait(ctx)
	if err != nil && !errors.Is(err, stage.ErrClosed) { // the handler gets it with the batch
		l.log.Warn("batch failed", "rows", len(b.Header.Tokens), "error", err)
	}
	l.traffic.Leave()
	route := b.Route
	changed := l.routes.finished(b, err)
	l.handler.Finished(b)
	if changed && l.handler.Changed != nil {
		l.handler.Changed(route)
	}
}

// entry is the link into a replica of the first stage. After a TrySend has found it full,
// it calls room as soon as the stage has received a batch.
type entry struct {
	stage.Link
	room   func(route int) // may be nil
	looked atomic.Int64    // 1 + the route of a TrySend that found the link full; 0: there was none
}

func (e *entry) TrySend(b *stage.Batch) bool {
	if e.Link.TrySend(b) {
		return true
	}
	if e.room == nil {
		return false
	}
	// The stage may have received a batch before looked was set: so try again.
	e.looked.Store(int64(b.Route) + 1)
	return e.Link.TrySend(b)
}

func (e *entry) Recv(ctx context.Context) (*stage.Batch, error) {
	b, err := e.Link.Recv(ctx)
	if err == nil && e.room != nil && e.looked.Load() > 0 {
		if route := e.looked.Swap(0); route > 0 {
			e.room(int(route) - 1)
		}
	}
	return b, err
}
