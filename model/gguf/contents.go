package gguf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/edsrzf/mmap-go"
)

// contents is the bytes of a file, which may be read between acquire and release. The file
// remains open, so that unchanged can detect changes.
type contents struct {
	file    *os.File // nil if data was passed to Parse
	size    int64
	changed time.Time // the file's modification time when it was opened

	mu     sync.Mutex
	data   []byte // the whole file; nil after it was unmapped
	users  int    // the number of acquires without a release
	closed bool
}

// openContents opens and maps the file at path.
func openContents(path string) (*contents, error) {
	// Check before opening, because opening a pipe waits for its other end.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if err := readable(info); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &contents{file: file}
	if err := c.mapFile(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

// readable returns an error if a file of that kind and size can't be mapped.
func readable(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("is a folder, not a GGUF file")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case info.Size() == 0:
		return errEmpty
	case uint64(info.Size()) > math.MaxInt:
		return fmt.Errorf("has %d bytes, more than this system can map", info.Size())
	}
	return nil
}

func (c *contents) mapFile() error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	if err := readable(info); err != nil {
		return err
	}
	c.size, c.changed = info.Size(), info.ModTime()
	c.data, err = mmap.MapRegion(c.file, int(c.size), mmap.RDONLY, 0, 0)
	return err
}

// acquire keeps the file mapped until release. It returns ErrClosed after close.
func (c *contents) acquire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.users++
	return nil
}

// release undoes acquire. It unmaps the file if it is closed and has no other users.
func (c *contents) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	return c.unmap()
}

// close closes the file, which remains mapped until the last release.
func (c *contents) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.unmap()
}

// unmap unmaps the file if it is closed and has no users. c.mu must be held.
func (c *contents) unmap() error {
	if !c.closed || c.users > 0 || c.data == nil {
		return nil
	}
	m := mmap.MMap(c.data)
	c.data = nil
	if c.file == nil {
		return nil
	}
	return errors.Join(m.Unmap(), c.file.Close())
}

// unchanged returns an error if the file was modified since it was opened. The contents must
// be acquired.
func (c *contents) unchanged() error {
	if c.file == nil {
		return nil
	}
	info, err := c.file.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() < c.size:
		return fmt.Errorf("the file was cut short while it was open, from %d bytes to %d: open it again when it is whole", c.size, info.Size())
	case info.Size() != c.size || !info.ModTime().Equal(c.changed):
		return errors.New("the file was written to while it was open: open it again when it is whole")
	}
	return nil
}

// readAt fills p with the bytes of the file from off on. The contents must be acquired.
func (c *contents) readAt(p []byte, off int64) error {
	if c.file == nil {
		copy(p, c.data[off:])
		return nil
	}
	n, err := c.file.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return fmt.Errorf("the file was cut short while it was open: %w", io.ErrUnexpectedEOF)
	}
	return err
}
