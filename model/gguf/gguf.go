// Package gguf reads model files in the GGUF format, versions 2 and 3,
// little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// It owns the format: the header, which [Open] reads into memory and checks; the metadata's
// values, which are decoded on demand; and the tensors, whose bytes are memory-mapped and read
// from the disk when they are first accessed. The package must not know what any key or tensor
// means to a model.
//
// Files are not trusted. If a file is malformed in any way, Open and Parse return an error
// that names the file and the key or tensor; they never panic, and never allocate more memory
// than the size of the file justifies. Text from a file is shortened before it is used in an
// error; see [Quote]. If a file is truncated, modified or closed while its tensors are still
// needed, that is an error as well.
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
	values   []Value  // of the keys
	keyIndex map[string]int

	tensors     []Tensor // in file order
	tensorIndex map[string]int
}

// ErrClosed is wrapped by the error of reading a tensor after Close.
var ErrClosed = errors.New("model closed: its file must stay open until the layers are loaded")

// Open opens the file at path, reads its header, and checks the header and the positions of
// the tensors. Every error begins with the path.
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

// Parse opens a GGUF file that is in memory, such as a model embedded in the program. It does
// not copy data, which must not be modified. Every error begins with name.
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

// Close closes the file. Reading a tensor afterwards is an error that wraps ErrClosed; the
// metadata can still be read. Close doesn't wait for calls of Use in progress: the file remains
// mapped until the last of them has returned. Further calls have no effect.
func (f *File) Close() error {
	if err := f.bytes.close(); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// Use calls use and returns its error. During the call, the memory of the tensors' matrices can
// be read even if f is closed. After Close, Use doesn't call use and returns an error that wraps
// ErrClosed. If the file was modified since it was opened, Use also returns an error, and the
// data that use has read must be discarded.
//
// If the file is truncated during the call, reading the memory causes a fault, so use should
// call debug.SetPanicOnFault.
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

// Forget tells the system that data, of a tensor's matrix, isn't needed any more, so that
// the process doesn't hold the file's pages in memory. Reading data again stays possible.
// It must be called within Use. On systems other than Linux it does nothing.
func (f *File) Forget(data []byte) { f.bytes.forget(data) }

// Name returns the path, or the name given to Parse.
func (f *File) Name() string { return f.name }

// Version returns the version of the format: 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Alignment returns the alignment of the tensors' data: each offset is a multiple of that
// number of bytes.
func (f *File) Alignment() uint32 { return f.alignment }

// Size returns the file's size in bytes.
func (f *File) Size() int64 { return f.bytes.size }

// Keys returns the metadata's keys in file order. The caller must not modify the slice.
func (f *File) Keys() []string { return f.keys }

// Value returns a key's value. ok is false if there is no such key.
func (f *File) Value(key string) (v Value, ok bool) {
	i, ok := f.keyIndex[key]
	if !ok {
		return Value{}, false
	}
	return f.values[i], true
}

// Tensors returns the tensors in file order. The caller must not modify the slice.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor with that name. ok is false if there is none.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	i, ok := f.tensorIndex[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}
