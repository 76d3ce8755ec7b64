package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// header is a copy of the beginning of a file, which doesn't change when the file does.
type header struct{ data []byte }

// cursor reads a header sequentially.
type cursor struct {
	*header // as much of the header as was read so far
	file    io.ReaderAt
	size    int  // the file's size, or maxHeader if that is less
	pos     int  // the position of the next byte
	names   int  // the total length of the keys and tensor names so far
	more    bool // whether the file is larger than size
}

func newCursor(file io.ReaderAt, size int64) *cursor {
	return &cursor{header: &header{}, file: file, size: int(min(size, maxHeader)), more: size > maxHeader}
}

// firstRead is the number of bytes that are read at first. Each further read makes the header
// at least four times as long, so that copying takes little time in total.
const firstRead = 256 << 10

// read reads the header up to end, which must not be more than size.
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

// trim frees the memory of what was read after the end of the header.
func (c *cursor) trim() {
	if len(c.data) > c.pos+c.pos/4 && c.file != nil {
		c.data = bytes.Clone(c.data[:c.pos])
	}
}

// left returns the number of bytes from the cursor to size.
func (c *cursor) left() uint64 { return uint64(c.size - c.pos) }

// next returns the next n bytes and advances the cursor.
func (c *cursor) next(n uint64) ([]byte, error) {
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
		return nil, fmt.Errorf("%d bytes at byte %d make the header longer than %d MiB, more than any model needs", n, c.pos, maxHeader>>20)
	default:
		return nil, fmt.Errorf("%d bytes needed at byte %d, where the file has %d left: it is cut short or damaged", n, c.pos, c.left())
	}
}

// fits returns an error if the rest of the file is too short for n items of at least size
// bytes each. what names the items.
func (c *cursor) fits(what string, n, size uint64) error {
	switch {
	case n <= c.left()/size:
		return nil
	case c.more:
		return fmt.Errorf("the number of %s is %d, which makes the header longer than %d MiB, more than any model needs", what, n, maxHeader>>20)
	default:
		return fmt.Errorf("the number of %s is %d, which the %d bytes left at byte %d cannot hold: the file is cut short or damaged", what, n, c.left(), c.pos)
	}
}

func (c *cursor) uint32() (uint32, error) {
	b, err := c.next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) uint64() (uint64, error) {
	b, err := c.next(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// bytes reads a string: its length as a uint64, and its bytes.
func (c *cursor) bytes() ([]byte, error) {
	n, err := c.uint64()
	if err != nil {
		return nil, fmt.Errorf("the length of a string: %w", err)
	}
	b, err := c.next(n)
	if err != nil {
		return nil, fmt.Errorf("a string: %w", err)
	}
	return b, nil
}

// name reads a key or a tensor's name.
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
	b, err := c.next(n)
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

// value reads and checks a value, without decoding it.
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
	b, err := c.next(v.kind.size())
	if err != nil {
		return v, fmt.Errorf("its value: %w", err)
	}
	return c.hold(v, len(b)), checkBools(v.kind, b)
}

// hold returns v with the last size bytes that were read as its contents.
func (c *cursor) hold(v Value, size int) Value {
	v.in, v.at, v.size = c.header, c.pos-size, size
	return v
}

// array reads and checks an array, without decoding it.
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
		size = 8 // at least, for the string's length
	case size == 0:
		return v, fmt.Errorf("an array of value type %d, which is not known", code)
	}
	if err := c.fits("array elements", v.n, size); err != nil {
		return v, err
	}
	if v.elem != String {
		b, err := c.next(v.n * size)
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

// checkBools returns an error if k is Bool and a byte of raw is neither 0 nor 1.
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

// tensor reads the dimensions, type and offset that follow a tensor's name. It leaves t.Offset
// relative to the start of the tensor data. t.Dims is appended to dims, which it returns.
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
