// Package model opens a model file: its architecture as a list of layers, and
// its tokenizer.
//
// The parts are packages of their own: model/gguf reads files, model/tokenizer
// turns text into tokens and back, model/arch has the architectures.
package model

import (
	"fmt"

	"github.com/leat-dev/leat/model/arch"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

// Model is an open model file. Its layers read the file when they are loaded;
// once a pipeline stands, the model may be closed.
type Model struct {
	*arch.Model
	Tokenizer tokenizer.Tokenizer
	file      *gguf.File
}

// ErrClosed is what loading a layer wraps after the model's Close.
var ErrClosed = gguf.ErrClosed

// Open opens a GGUF file. No weights are read yet. A file that is malformed, or
// asks for what Leat doesn't have, is an error that begins with its path.
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

// Parse reads a GGUF file from memory, which the model keeps. name stands for
// the path in errors.
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

// File is the file behind the model.
func (m *Model) File() *gguf.File { return m.file }

// Close closes the file. Layers that were not loaded by then can't be: loading one
// is ErrClosed. A second Close does nothing.
func (m *Model) Close() error { return m.file.Close() }
