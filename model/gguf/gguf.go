// Package gguf reads model files in the GGUF format, versions 2 and 3,
// little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// It owns the format: the header, which [Open] reads into memory and checks, the
// metadata's values, which are decoded when they are asked for, and the tensors,
// which stay on the disk. A tensor's bytes are mapped, and come from the disk when
// they are first used. The package must not know what any key or tensor means to a
// model.
//
// Files come from strangers. Whatever a file says, Open and Parse return an
// error that names the file, the key or tensor and the trouble; they never
// panic, and never allocate more than the file itself justifies. Text of a file
// is shortened before it stands in an error: see [Quote]. A file that is cut
// short, rewritten or closed while its tensors are still needed is an error too.
package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// File is a GGUF file. Its methods may be called from any goroutine.
type File struct {
	name      string
	version   uint32
	alignment uint32
	bytes     *contents

	keys     []string // in file order
	values   []Value
	keyIndex map[string]int

	tensors     []Tensor // in file order
	tensorIndex map[string]int
}

// ErrClosed is what reading a tensor wraps after Close.
var ErrClosed = errors.New("model closed: its file must stay open until the layers are loaded")

// Open reads the header of the file at path, and checks it and where the tensors
// lie. Every error starts with the path.
func Open(path string) (*File, error) {
	c, err := openContents(path)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{name: path, bytes: c}
	if err := f.parse(newCursor(c.file, c.size)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.close())
	}
	return f, nil
}

// Parse reads a GGUF file that is already in memory, such as a model embedded
// in the program. name stands for it in errors. data is kept, not copied, and
// must not change.
func Parse(name string, data []byte) (*File, error) {
	size := int64(len(data))
	f := &File{name: name, bytes: &contents{data: data, size: size}}
	c := newCursor(bytes.NewReader(data), size)
	c.data = data[:c.size:c.size]
	if err := f.parse(c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Close ends the reading of tensors, which is ErrClosed from then on. The
// metadata can still be read. A Use that is going on ends first: the memory goes
// with the last one. A second Close does nothing.
func (f *File) Close() error {
	if err := f.bytes.close(); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// Use calls use, during which the memory of the tensors' matrices can be read
// whatever happens to f, and returns its error. After Close it returns ErrClosed
// instead, and calls nothing. If the file has been written to since it was
// opened, that is an error too, after the call: what use has read is worth
// nothing then.
//
// A file that is cut short meanwhile faults where it is read, unless its size
// shows that beforehand: who reads the memory uses debug.SetPanicOnFault.
func (f *File) Use(use func() error) error {
	if err := f.bytes.acquire(); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	err := f.bytes.unchanged()
	if err == nil {
		if err := use(); err != nil {
			_ = f.bytes.release() // the first error tells more
			return err
		}
		err = f.bytes.unchanged()
	}
	if err = errors.Join(err, f.bytes.release()); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// Name returns the path, or the name given to Parse.
func (f *File) Name() string { return f.name }

// Version returns the version of the format: 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Alignment returns what every tensor's offset is a multiple of, in bytes.
func (f *File) Alignment() uint32 { return f.alignment }

// Size returns the file's size in bytes.
func (f *File) Size() int64 { return f.bytes.size }

// Keys returns the metadata's keys in file order. The caller must not change
// the slice.
func (f *File) Keys() []string { return f.keys }

// Value returns a key's value, ok false where there is no such key.
func (f *File) Value(key string) (v Value, ok bool) {
	i, ok := f.keyIndex[key]
	if !ok {
		return Value{}, false
	}
	return f.values[i], true
}

// Tensors returns the tensors in file order. The caller must not change the
// slice.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor of that name, ok false where there is none.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	i, ok := f.tensorIndex[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}
