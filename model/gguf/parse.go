package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of a header, each far above that of any model. With them, no header makes Leat
// allocate or read more than 100 MB. The size of the file alone would not limit that, since a
// sparse file of zeros can be very large and need no space on the disk.
const (
	maxHeader  = 64 << 20 // bytes of the header
	maxKeys    = 1 << 16
	maxTensors = 1 << 17
	maxName    = 1<<16 - 1 // bytes of one key or tensor name
	maxNames   = 8 << 20   // bytes of all keys and tensor names together
)

// minKeyBytes and minTensorBytes are lower bounds of the size of a key with its value and of a
// tensor's description. The former counts only the key's length, so that the error for a file
// that is too short names what is missing.
const (
	minKeyBytes    = 8
	minTensorBytes = 8 + 1 + 4 + 8 + 4 + 8
)

const (
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
)

var errEmpty = errors.New("is empty")

func (f *File) parse(c *cursor) error {
	if f.bytes.size == 0 {
		return errEmpty
	}
	if err := f.parseStart(c); err != nil {
		return err
	}
	tensors, err := c.uint64()
	if err != nil {
		return fmt.Errorf("the number of tensors: %w", err)
	}
	keys, err := c.uint64()
	if err != nil {
		return fmt.Errorf("the number of keys: %w", err)
	}
	if err := c.fits("tensors", tensors, minTensorBytes); err != nil {
		return err
	}
	if err := c.fits("keys", keys, minKeyBytes); err != nil {
		return err
	}
	if tensors > maxTensors || keys > maxKeys {
		return fmt.Errorf("%d tensors and %d keys: Leat reads at most %d and %d", tensors, keys, maxTensors, maxKeys)
	}
	if err := f.parseKeys(c, int(keys)); err != nil {
		return err
	}
	if err := f.findAlignment(); err != nil {
		return err
	}
	if err := f.parseTensors(c, int(tensors)); err != nil {
		return err
	}
	c.trim()
	return nil
}

// parseStart reads the magic and the version.
func (f *File) parseStart(c *cursor) error {
	magic, err := c.next(4)
	if err != nil {
		return fmt.Errorf("not a GGUF file: it has only %d bytes", f.bytes.size)
	}
	if string(magic) != "GGUF" {
		return fmt.Errorf(`not a GGUF file: it starts with %q, not "GGUF"`, string(magic))
	}
	f.version, err = c.uint32()
	switch {
	case err != nil:
		return fmt.Errorf("the version: %w", err)
	case f.version == 1:
		return errors.New("GGUF version 1 is too old: convert the model again, to version 3")
	case f.version&0xffff == 0 && f.version != 0:
		return errors.New("a big-endian GGUF file: Leat reads little-endian ones only; convert the model again")
	case f.version != 2 && f.version != 3:
		return fmt.Errorf("GGUF version %d is not known: Leat reads versions 2 and 3", f.version)
	}
	return nil
}

func (f *File) parseKeys(c *cursor, n int) error {
	f.keys = make([]string, 0, n)
	f.values = make([]Value, 0, n)
	f.keyIndex = make(map[string]int, n)
	for i := range n {
		key, err := c.name()
		if err != nil {
			return fmt.Errorf("key %d of %d: %w", i+1, n, err)
		}
		if _, twice := f.keyIndex[key]; twice {
			return fmt.Errorf("key %s appears twice", Quote(key))
		}
		v, err := c.value()
		if err != nil {
			return fmt.Errorf("key %s: %w", Quote(key), err)
		}
		f.keyIndex[key] = i
		f.keys = append(f.keys, key)
		f.values = append(f.values, v)
	}
	return nil
}

func (f *File) findAlignment() error {
	f.alignment = defaultAlignment
	v, ok := f.Value(alignmentKey)
	if !ok {
		return nil
	}
	if v.Kind() != Uint32 {
		return fmt.Errorf("key %q is of type %s, not uint32", alignmentKey, v.TypeName())
	}
	f.alignment = binary.LittleEndian.Uint32(v.raw())
	if f.alignment == 0 || f.alignment&(f.alignment-1) != 0 {
		return fmt.Errorf("key %q: %d is not a power of two", alignmentKey, f.alignment)
	}
	return nil
}

func (f *File) parseTensors(c *cursor, n int) error {
	f.tensors = make([]Tensor, 0, n)
	f.tensorIndex = make(map[string]int, n)
	dims := make([]uint64, 0, maxDims*n)
	for i := range n {
		name, err := c.name()
		if err != nil {
			return fmt.Errorf("tensor %d of %d: its name: %w", i+1, n, err)
		}
		if _, twice := f.tensorIndex[name]; twice {
			return fmt.Errorf("tensor %s appears twice", Quote(name))
		}
		t := Tensor{Name: name, file: f}
		if dims, err = c.tensor(&t, dims); err != nil {
			return fmt.Errorf("tensor %s: %w", Quote(name), err)
		}
		f.tensorIndex[name] = i
		f.tensors = append(f.tensors, t)
	}
	align := uint64(f.alignment)
	start := (uint64(c.pos) + align - 1) / align * align
	for i := range f.tensors {
		if err := f.locate(&f.tensors[i], start); err != nil {
			return fmt.Errorf("tensor %s: %w", Quote(f.tensors[i].Name), err)
		}
	}
	return f.checkNeighbours(start)
}
