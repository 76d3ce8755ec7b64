// Package model opens a model file, and returns the model as a list of layers together with
// its tokenizer.
//
// The parts are packages of their own: model/gguf reads files, model/tokenizer converts text
// to tokens and back, and model/arch has the architectures.
package model

import (
	"fmt"

	"github.com/leat-dev/leat/model/arch"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

// Model is an open model file. Its layers read the file when they are loaded. The model may be
// closed when all of its layers have been loaded, such as after pipeline.New.
type Model struct {
	*arch.Model
	Tokenizer tokenizer.Tokenizer
	file      *gguf.File
}

// ErrClosed is wrapped by the error of loading a layer after the model's Close.
var ErrClosed = gguf.ErrClosed

// Open opens a GGUF file. It reads no weights. If the file is malformed, or needs something
// that Leat doesn't support, the error begins with the file's path.
func Open(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := build(f)
	if err != nil {
		_ = f.Close() // the first error tells more
		return nil, err
	}
	return m, nil
}

// Parse opens a model whose GGUF file is in memory. It does not copy data, which must not be
// modified. name is used in errors in place of a path.
func Parse(name string, data []byte) (*Model, error) {
	f, err := gguf.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return build(f)
}

func build(f *gguf.File) (*Model, error) {
	if err := f.Whole(); err != nil {
		return nil, err
	}
	a, err := arch.Build(f)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	if t.Size() != a.Vocab {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, the embedding %d rows", f.Name(), t.Size(), a.Vocab)
	}
	return &Model{Model: a, Tokenizer: t, file: f}, nil
}

// File returns the model's file.
func (m *Model) File() *gguf.File { return m.file }

// Close closes the file. Loading a layer afterwards is an error that wraps ErrClosed. Further
// calls have no effect.
func (m *Model) Close() error { return m.file.Close() }
