package files

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// grace is how long writes may go on after the context has ended, all together: a
// reader who is there gets what is left, and one who stands still holds up nothing.
const grace = 500 * time.Millisecond

// Writer passes on what is written to it. Its context ends even a write to a pipe or
// a terminal whose reader stands still: half a second later it fails with the
// context's error, and so do all further writes.
type Writer struct {
	ctx  context.Context
	to   io.Writer
	late chan struct{} // closed when the grace is over
	stop func() bool

	mu     sync.Mutex
	buffer []byte // of the write that is under way
	done   chan writeResult
	failed error // of the first write that failed
	stuck  bool  // a write never came back: buffer is its
}

type writeResult struct {
	n   int
	err error
}

// NewWriter returns a Writer to w, which is to be freed by Release.
func NewWriter(ctx context.Context, w io.Writer) *Writer {
	g := &Writer{ctx: ctx, to: w, late: make(chan struct{}), done: make(chan writeResult, 1)}
	g.stop = context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { close(g.late) })
	})
	return g
}

// Write implements io.Writer. It may be called by several goroutines.
func (g *Writer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck {
		return 0, g.ctx.Err()
	}
	g.buffer = append(g.buffer[:0], p...)
	go func() {
		n, err := g.to.Write(g.buffer)
		g.done <- writeResult{n, err}
	}()
	var r writeResult
	select {
	case r = <-g.done:
	case <-g.late:
		g.stuck = true
		r.err = g.ctx.Err()
	}
	if g.failed == nil {
		g.failed = r.err
	}
	return r.n, r.err
}

// Err returns the error of the first write that failed.
func (g *Writer) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// Release frees what the Writer holds. Writes no longer end with the context.
func (g *Writer) Release() { g.stop() }

// Stream is standard output or standard error: a Writer that can be asked what it
// writes to, as a terminal's file can.
type Stream struct {
	*Writer
	file *os.File
}

// Output returns a Stream if w is a file, and a Writer otherwise, and the Writer of
// either.
func Output(ctx context.Context, w io.Writer) (io.Writer, *Writer) {
	g := NewWriter(ctx, w)
	if f, ok := w.(*os.File); ok {
		return &Stream{g, f}, g
	}
	return g, g
}

// Fd is the file's.
func (s *Stream) Fd() uintptr { return s.file.Fd() }

// Stat is the file's.
func (s *Stream) Stat() (fs.FileInfo, error) { return s.file.Stat() }

// Read is the file's: programs ask a terminal that they write to.
func (s *Stream) Read(p []byte) (int, error) { return s.file.Read(p) }

// Close leaves the file open: it is the process's.
func (s *Stream) Close() error { return nil }
