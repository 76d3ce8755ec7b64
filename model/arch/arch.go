// Package arch holds the architectures that Leat runs, one file each, written
// once against the op set of package kernels. An architecture reads a file's
// keys, checks its tensors against them, and returns the model as a list of
// layers: an embedding, blocks, an output head.
//
// A new architecture is a new file that calls register; nothing else changes.
package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/stage"
)

// Model is an architecture read from a file. Its layers read the file's tensors
// when they are loaded: the file must stay open until then.
type Model struct {
	Name    string        // the architecture: "llama"
	Layers  []stage.Layer // in forward order; one Load each at a time
	Vocab   int           // tokens that the embedding knows; the width of the logits
	Context int           // positions that the model was trained for
	Width   int           // floats of an activation row
}

type builder func(f *gguf.File) (*Model, error)

var architectures = map[string]builder{}

func register(name string, b builder) { architectures[name] = b }

// Build reads the architecture that the file names in general.architecture.
// Whatever the file asks for and Leat doesn't have is an error that names it.
func Build(f *gguf.File) (*Model, error) {
	name, ok, err := f.String("general.architecture")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s: no key general.architecture: it isn't a model", f.Name())
	}
	build, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("%s: architecture %q is not supported; Leat runs %s", f.Name(), name, strings.Join(supported(), ", "))
	}
	m, err := build(f)
	if err != nil {
		return nil, err
	}
	m.Name = name
	return m, nil
}

func supported() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
