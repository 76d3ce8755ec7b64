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

// contents is the bytes of a file, which may be read while it is acquired. The
// file stays open, so that a change can be seen.
type contents struct {
	file    *os.File // nil where data is the caller's
	size    int64
	changed time.Time // when the file was written to last, when it was opened

	mu     sync.Mutex
	data   []byte // all of the file; nil once it is unmapped
	users  int
	closed bool
}

func openContents(path string) (*contents, error) {
	// Asked before opening, since opening a pipe waits for its other end.
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

func readable(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("is a folder, not a GGUF file")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case info.Size() == 0:
		return errEmpty
	case uint64(info.Size()) > math.MaxInt:
		return fmt.Errorf("%d bytes are more than this system can map", info.Size())
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

// acquire keeps the memory until release.
func (c *contents) acquire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.users++
	return nil
}

func (c *contents) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	return c.unmap()
}

func (c *contents) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.unmap()
}

// unmap gives the memory back if nobody uses it any more.
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

// unchanged says so where the file isn't what it was when it was opened. It must
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

// readAt copies bytes of the file, which must be acquired.
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
