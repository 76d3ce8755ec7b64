// Package arch implements the model architectures that Leat supports. Each is a declaration in
// a file of its own: a function that reads the keys of a model file and returns a description
// of the model, in the terms of the papers. Everything else follows from the description: the
// tensors and their shapes, the cost of a layer, its workspace, how it is loaded, and its
// Forward. [Build] returns the model as a list of layers: an embedding, blocks and an output
// head.
//
// The package must know nothing of devices, stages or requests. A layer is a list of ops on
// named activations, which package internal/program runs.
//
// # Adding an architecture
//
// A new architecture is a new file. See llama.go first. Its init function declares a function
// that
//
//   - calls keys.decoder and, for each block, keys.attention and others. These read the keys
//     that most families have under the same names;
//   - sets what is different in the family. It may differ between blocks: a rule such as
//     "every fourth block" is an if statement about the block's number, and a key may have a
//     list with one element for each block (see keys.sizeOf);
//   - assembles the parts to blocks.
//
// A family that differs little from another one calls the other's functions, as qwen2.go does.
//
// Nothing is ignored silently. Build returns an error that names
//
//   - a tensor of the file that no part uses;
//   - a key that changes the arithmetic (in the table changes in keys.go) and that the
//     declaration did not read; other keys that it did not read are ignored;
//   - a member of the description that no op implements yet, marked (*) below.
//
// # Members for the variants of architectures
//
//	norms: RMSNorm, layer norm, with a bias    norm.kind, norm.bias
//	before a part, after it, both              residual.before, residual.after
//	norms of queries and keys                  attention.qNorm, kNorm
//	biases of products                         attention.bias, outputBias; feedForward.bias; head.bias
//	one tensor for q, k, v or for gate, up     chosen by the file's tensors
//	rotation: partial, by halves, divided      rope.dims, split, factors
//	no rotation, in some blocks or all         the zero rope
//	learned positions                          embedding.positions (*)
//	ALiBi                                      attention.alibi
//	sliding windows, soft-caps, sinks          attention.window, softCap, sinks
//	another scale of attention                 attention.scale
//	activations, gated or plain                feedForward.activation, gated
//	parallel residual, one norm or two         sum of parts in one residual, each behind its norm
//	one part to a block, or three              the residuals of the block
//	factors of embedding, residual, logits     embedding.scale, residual.scale, head.scale
//	a norm of the embedding                    embedding.norm
//	a soft-cap of the logits                   head.softCap
//
// The following variants have no members yet:
//
//   - Linear, YaRN and long/short scaling of a rotation would be members of rope, like
//     factors, that change its frequencies. The magnitude in YaRN is part of attention.scale.
//   - Clamped queries, keys and values, a gate on the output of attention, and a scale of
//     queries that depends on the position would be members of attention, with one step each.
//   - A mixture of experts would be a part, like feedForward, with the tensors of the router
//     and of the experts, and the rule for weighting a row's experts. Shared experts are a sum
//     of it and a feedForward. If only the first blocks are dense, that is an if statement
//     about the block's number.
//   - Latent attention, gated delta nets, Mamba-2 and short convolutions would be parts, like
//     attention. Recurrent ones need state that is not in pages, which would be in a program
//     what a Cache is now. A hybrid is an if statement about the block's number, or a sum.
//   - Embeddings for each block would need wider activations, of which a block reads a slice.
//     Caches used by several blocks would need a reference to another layer's Cache.
package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/stage"
)

// Model is the model in a file. Its layers read the file's tensors when they are loaded, so the
// file must remain open until then.
type Model struct {
	Name    string        // the name of the architecture, such as "llama"
	Layers  []stage.Layer // in forward order; of each, only one Load may run at a time
	Vocab   int           // the number of tokens, which is the number of logits in a row
	Context int           // the number of positions for which the model was trained
	Width   int           // the number of float32s in a row of activations between layers
}

// declaration reads a file's keys and returns the description of the model. If a key is wrong,
// the error is in k.err.
type declaration func(k *keys) decoder

var architectures = map[string]declaration{}

// declare adds an architecture. name is that of the key general.architecture.
func declare(name string, d declaration) { architectures[name] = d }

// Build returns the model in a file, whose architecture the key general.architecture names. If
// the file needs something that Leat doesn't support, the error names it.
func Build(f *gguf.File) (*Model, error) {
	name, ok, err := f.String("general.architecture")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s: no key general.architecture: the file isn't a model", f.Name())
	}
	declared, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("%s: architecture %s is not supported; Leat runs %s", f.Name(), gguf.Quote(name), strings.Join(supported(), ", "))
	}
	return declared.build(f, name)
}

// build returns the model of a file with the declared architecture.
func (declared declaration) build(f *gguf.File, name string) (*Model, error) {
	k := newKeys(f, name)
	d := declared(k)
	k.rest()
	if k.err != nil {
		return nil, k.err
	}
	m, err := d.model(k)
	if err != nil {
		return nil, err
	}
	m.Name = name
	return m, nil
}

// supported returns the names of the architectures, sorted.
func supported() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
