package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Reader reads a file of a command. When its context ends, so does a Read that
// waits. It is for one goroutine.
type Reader struct {
	ctx     context.Context
	from    io.Reader
	file    *os.File // nil: standard input, which isn't the Reader's to close
	regular fs.FileInfo

	buffer []byte // of a read from anything but a regular file
	done   chan readResult
}

type readResult struct {
	n   int
	err error
}

// Open opens a file to read. A path that is Standard means stdin. The wait for
// the writer of a named pipe ends with ctx.
func Open(ctx context.Context, path string, stdin io.Reader) (*Reader, error) {
	if path == Standard {
		return Input(ctx, stdin), nil
	}
	f, err := Await(ctx, func() (*os.File, error) { return os.Open(path) }, closeFile)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is a folder")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r := Input(ctx, f)
	r.file = f
	return r, nil
}

func closeFile(f *os.File) { _ = f.Close() }

// Input reads standard input, which Close leaves open.
func Input(ctx context.Context, stdin io.Reader) *Reader {
	r := &Reader{ctx: ctx, from: stdin}
	if s, ok := stdin.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := s.Stat(); err == nil && info.Mode().IsRegular() {
			r.regular = info
		}
	}
	return r
}

// Size returns the bytes of a regular file, and 0 for anything else.
func (r *Reader) Size() int64 {
	if r.regular == nil {
		return 0
	}
	return r.regular.Size()
}

// Read implements io.Reader. After its context has ended it returns the context's
// error. What a pipe or a terminal may still give then is lost: nothing can
// interrupt the goroutine that waits for it, which ends when it gets something or
// when the process ends.
func (r *Reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.regular != nil {
		return r.from.Read(p)
	}
	if r.done == nil {
		r.done = make(chan readResult, 1)
		r.buffer = make([]byte, 1<<16)
	}
	buffer := r.buffer[:min(len(p), len(r.buffer))]
	go func() {
		n, err := r.from.Read(buffer)
		r.done <- readResult{n, err}
	}()
	select {
	case got := <-r.done:
		return copy(p, buffer[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// Close closes the file, unless it is standard input.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
