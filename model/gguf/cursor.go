package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// header is the beginning of a file in memory: a copy, which stays as it is when
// the file changes.
type header struct{ data []byte }

// cursor reads a header from its start on.
type cursor struct {
	*header // as much of it as was needed so far
	file    io.ReaderAt
	size    int // of the file, or maxHeader if that is less
	pos     int
	names   int  // bytes of keys and tensor names so far
	more    bool // the file goes on after size
}

func newCursor(file io.ReaderAt, size int64) *cursor {
	return &cursor{header: &header{}, file: file, size: int(min(size, maxHeader)), more: size > maxHeader}
}

// firstRead is how much of a file is read at first. It grows fourfold, so that
// all reading together takes little more than the last.
const firstRead = 256 << 10

// read sees to it that the header is there up to an end within size.
func (c *cursor) read(end int) error {
	if end <= len(c.data) {
		return nil
	}
	data := make([]byte, min(c.size, max(end, firstRead, 4*len(c.data))))
	n := copy(data, c.data)
	switch m, err := c.file.ReadAt(data[n:], int64(n)); {
	case n+m == len(data):
		c.data = data
		return nil
	case err == io.EOF:
		return errors.New("the file was cut short while it was read: open it again when it is whole")
	default:
		return err
	}
}

// trim lets go of what was read beyond the header.
func (c *cursor) trim() {
	if len(c.data) > c.pos+c.pos/4 && c.file != nil {
		c.data = bytes.Clone(c.data[:c.pos])
	}
}

func (c *cursor) left() uint64 { return uint64(c.size - c.pos) }

// take returns the next n bytes.
func (c *cursor) take(n uint64) ([]byte, error) {
	switch {
	case n <= c.left():
		end := c.pos + int(n)
		if err := c.read(end); err != nil {
			return nil, err
		}
		b := c.data[c.pos:end:end]
		c.pos = end
		return b, nil
	case c.more:
		return nil, fmt.Errorf("%d bytes at byte %d take the header beyond %d MiB, more than any model needs", n, c.pos, maxHeader>>20)
	default:
		return nil, fmt.Errorf("%d bytes needed at byte %d, where the file has %d left: it is cut short or damaged", n, c.pos, c.left())
	}
}

// fits refuses a count of things, each at least size bytes, that the rest of
// the file could not hold.
func (c *cursor) fits(what string, n, size uint64) error {
	switch {
	case n <= c.left()/size:
		return nil
	case c.more:
		return fmt.Errorf("the number of %s is %d, which takes the header beyond %d MiB, more than any model needs", what, n, maxHeader>>20)
	default:
		return fmt.Errorf("the number of %s is %d, which the %d bytes left at byte %d cannot hold: the file is cut short or damaged", what, n, c.left(), c.pos)
	}
}

func (c *cursor) uint32() (uint32, error) {
	b, err := c.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) uint64() (uint64, error) {
	b, err := c.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// bytes reads a length and as many bytes.
func (c *cursor) bytes() ([]byte, error) {
	n, err := c.uint64()
	if err != nil {
		return nil, fmt.Errorf("the length of a string: %w", err)
	}
	b, err := c.take(n)
	if err != nil {
		return nil, fmt.Errorf("a string: %w", err)
	}
	return b, nil
}

// name reads a key or a tensor's name. It is copied, so that it stays when the
// file is closed.
func (c *cursor) name() (string, error) {
	n, err := c.uint64()
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "", errors.New("it is empty")
	case n > maxName && n <= c.left():
		return "", fmt.Errorf("it has %d bytes, more than %d", n, maxName)
	}
	b, err := c.take(n)
	if err != nil {
		return "", err
	}
	if c.names += len(b); c.names > maxNames {
		return "", fmt.Errorf("all names together are longer than %d MiB, more than any model needs", maxNames>>20)
	}
	s := string(b)
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%s is not valid UTF-8", Quote(s))
	}
	return s, nil
}

// value checks a value and steps over it.
func (c *cursor) value() (v Value, err error) {
	code, err := c.uint32()
	if err != nil {
		return v, fmt.Errorf("its type: %w", err)
	}
	v.kind, v.n = Kind(code), 1
	switch {
	case v.kind == String:
		b, err := c.bytes()
		return c.hold(v, len(b)), err
	case v.kind == Array:
		return c.array()
	case v.kind.size() == 0:
		return v, fmt.Errorf("value type %d is not known", code)
	}
	b, err := c.take(v.kind.size())
	if err != nil {
		return v, fmt.Errorf("its value: %w", err)
	}
	return c.hold(v, len(b)), checkBools(v.kind, b)
}

// hold returns v with the last size bytes that were read as what it holds.
func (c *cursor) hold(v Value, size int) Value {
	v.in, v.at, v.size = c.header, c.pos-size, size
	return v
}

func (c *cursor) array() (v Value, err error) {
	v.kind = Array
	code, err := c.uint32()
	if err != nil {
		return v, fmt.Errorf("the type of its array: %w", err)
	}
	if v.n, err = c.uint64(); err != nil {
		return v, fmt.Errorf("the length of its array: %w", err)
	}
	v.elem = Kind(code)
	size := v.elem.size()
	switch {
	case v.elem == Array:
		return v, errors.New("an array of arrays, which Leat doesn't read")
	case v.elem == String:
		size = 8 // its length, at least
	case size == 0:
		return v, fmt.Errorf("an array of value type %d, which is not known", code)
	}
	if err := c.fits("array elements", v.n, size); err != nil {
		return v, err
	}
	if v.elem != String {
		b, err := c.take(v.n * size)
		if err != nil {
			return v, err
		}
		return c.hold(v, len(b)), checkBools(v.elem, b)
	}
	start := c.pos
	for i := range v.n {
		if _, err := c.bytes(); err != nil {
			return v, fmt.Errorf("element %d of %d: %w", i, v.n, err)
		}
	}
	return c.hold(v, c.pos-start), nil
}

func checkBools(k Kind, raw []byte) error {
	if k != Bool {
		return nil
	}
	for _, b := range raw {
		if b > 1 {
			return fmt.Errorf("a bool of %d, which is neither 0 nor 1", b)
		}
	}
	return nil
}

// tensor reads what follows a tensor's name, but leaves its Offset counted
// from the start of the tensor data. The dimensions are appended to dims.
func (c *cursor) tensor(t *Tensor, dims []uint64) ([]uint64, error) {
	n, err := c.uint32()
	switch {
	case err != nil:
		return dims, fmt.Errorf("the number of its dimensions: %w", err)
	case n == 0 || n > maxDims:
		return dims, fmt.Errorf("%d dimensions, where 1 to %d are possible", n, maxDims)
	}
	first := len(dims)
	for range n {
		d, err := c.uint64()
		if err != nil {
			return dims, fmt.Errorf("its dimensions: %w", err)
		}
		dims = append(dims, d)
	}
	t.Dims = dims[first:len(dims):len(dims)]
	code, err := c.uint32()
	if err != nil {
		return dims, fmt.Errorf("its type: %w", err)
	}
	t.Type = Type(code)
	if t.Offset, err = c.uint64(); err != nil {
		return dims, fmt.Errorf("its offset: %w", err)
	}
	return dims, nil
}
