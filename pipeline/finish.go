package pipeline

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/leat-dev/leat/stage"
)

// exit is the link behind a last stage whose device works on the host: whoever
// sends a batch there finishes it, with no goroutine in between.
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

// finishAll finishes the batches that come out of a last stage, until the stage closes
// the link.
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

// mustReturn is deferred by a goroutine that calls its user's code and that others wait
// for. Where that code ends the goroutine, by runtime.Goexit, there is nobody to answer
// those who wait, so it is a panic. A panic of that code goes on.
func mustReturn(returned *bool, user string) {
	if *returned {
		return
	}
	if value := recover(); value != nil {
		panic(value)
	}
	panic("pipeline: " + user + " called runtime.Goexit")
}

// finish waits for the work on a batch that has left the last stage, judges its
// route by it, and hands it to the line's user.
func (l *Line) finish(ctx context.Context, b *stage.Batch) {
	err := b.Wait(ctx)
	if err != nil && !errors.Is(err, stage.ErrClosed) { // the batch carries it
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

// entry is the link into a replica of the first stage. It says when there is room
// again that somebody looked for.
type entry struct {
	stage.Link
	room   func(route int) // may be nil
	looked atomic.Int64    // the route on which somebody found no room, from 1; 0: nobody did
}

func (e *entry) TrySend(b *stage.Batch) bool {
	if e.Link.TrySend(b) {
		return true
	}
	if e.room == nil {
		return false
	}
	// A batch may be taken before the look is noted: so look again.
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
