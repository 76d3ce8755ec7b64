package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// cursor reads a header from its start on. What it returns lies in the file.
type cursor struct {
	data  []byte // up to maxHeader bytes of the file
	pos   int
	names int  // bytes of keys and tensor names so far
	more  bool // the file goes on after data
}

func newCursor(file []byte) *cursor {
	if len(file) > maxHeader {
		return &cursor{data: file[:maxHeader], more: true}
	}
	return &cursor{data: file}
}

func (c *cursor) left() uint64 { return uint64(len(c.data) - c.pos) }

// take returns the next n bytes.
func (c *cursor) take(n uint64) ([]byte, error) {
	switch {
	case n <= c.left():
		b := c.data[c.pos : c.pos+int(n) : c.pos+int(n)]
		c.pos += int(n)
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
		return "", fmt.Errorf("%s is not valid UTF-8", quote(s))
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
		v.raw, err = c.bytes()
		return v, err
	case v.kind == Array:
		return c.array()
	case v.kind.size() == 0:
		return v, fmt.Errorf("value type %d is not known", code)
	}
	if v.raw, err = c.take(v.kind.size()); err != nil {
		return v, fmt.Errorf("its value: %w", err)
	}
	return v, checkBools(v.kind, v.raw)
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
		v.raw, err = c.take(v.n * size)
		if err != nil {
			return v, err
		}
		return v, checkBools(v.elem, v.raw)
	}
	start := c.pos
	for i := range v.n {
		if _, err := c.bytes(); err != nil {
			return v, fmt.Errorf("element %d of %d: %w", i, v.n, err)
		}
	}
	v.raw = c.data[start:c.pos:c.pos]
	return v, nil
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
