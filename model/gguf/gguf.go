// Package gguf reads model files in the GGUF format, versions 2 and 3,
// little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// A [File] is mapped, not read: opening one touches its header only, and a
// tensor's bytes come from the disk when they are first used. Metadata is
// checked once, when the file is opened, and decoded when it is asked for.
//
// Files come from strangers. Whatever a file says, Open and Parse return an
// error that names the file, the key or tensor and the trouble; they never
// panic, and never allocate more than the file itself justifies.
package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/edsrzf/mmap-go"
)

// File is a GGUF file. Its methods may be called from any goroutine, Close
// after all others.
type File struct {
	name      string
	version   uint32
	alignment uint32
	data      []byte
	mapping   mmap.MMap // nil where data is the caller's

	keys     []string // in file order
	values   []Value
	keyIndex map[string]int

	tensors     []Tensor // in file order
	tensorIndex map[string]int
}

// Open maps the file at path and checks its header and where its tensors lie.
// Every error starts with the path.
//
// The file must not be shortened while it is open: the system then ends the
// program when a tensor's bytes are read.
func Open(path string) (*File, error) {
	m, err := mapFile(path)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := Parse(path, m)
	if err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	f.mapping = m
	return f, nil
}

func mapFile(path string) (mmap.MMap, error) {
	// Asked before opening, since opening a pipe waits for its other end.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("is a folder, not a GGUF file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Size() == 0:
		return nil, errEmpty
	case uint64(info.Size()) > math.MaxInt:
		return nil, fmt.Errorf("%d bytes are more than this system can map", info.Size())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the mapping outlives it
	return mmap.Map(file, mmap.RDONLY, 0)
}

// Parse reads a GGUF file that is already in memory, such as a model embedded
// in the program. name stands for it in errors. data is kept, not copied, and
// must not change.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, data: data}
	if err := f.parse(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Close unmaps the file and empties f. Every Tensor's Data and every Value got
// from it before must not be used any more; strings and slices that the typed
// getters returned are copies and stay. A second Close does nothing.
func (f *File) Close() error {
	m := f.mapping
	*f = File{name: f.name, version: f.version, alignment: f.alignment}
	if m == nil {
		return nil
	}
	if err := m.Unmap(); err != nil {
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
func (f *File) Size() int64 { return int64(len(f.data)) }

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
