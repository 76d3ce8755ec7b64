// Package arch holds the architectures that Leat runs. Each is a declaration in a
// file of its own: a function that reads the keys of a model file and says what
// the model is made of, in the words of the papers. Which tensors are taken from
// the file and their shapes, what a layer costs, the workspace that it needs, how
// it is loaded, and its Forward all follow from the declaration; [Build] returns
// the model as a list of layers, an embedding, blocks and an output head.
//
// The package knows nothing of devices, stages or requests. What a layer does is
// a list of ops over named activations, which internal/program runs.
//
// # Adding an architecture
//
// A new architecture is a new file; llama.go is the one to begin with. Its init
// declares a function that
//
//   - calls keys.decoder, and for each block keys.attention and others, which read
//     the keys that most families have under the same names;
//   - sets what is different in the family, for each block if need be: a rule such
//     as "every fourth block" is an if over the block's number, and a key may
//     hold a list with an element for each block (keys.sizeOf);
//   - puts the parts into blocks.
//
// A family that differs from another in a few points calls the other's functions,
// as qwen2.go does.
//
// Nothing is ignored silently. Build returns an error that names
//
//   - a tensor of the file that no part took;
//   - a key that changes the arithmetic (the table changes in keys.go) and that the
//     declaration didn't read; other keys that it didn't read are ignored;
//   - a member of the declaration that no op computes yet, marked (*) below.
//
// # What a variant is called here
//
//	norms: RMSNorm, layer norm, with a bias    norm.kind, norm.bias
//	before a part, after it, both              residual.before, residual.after
//	norms of queries and keys                  attention.qNorm, kNorm
//	biases of products                         attention.bias, outputBias; feedForward.bias; head.bias
//	one tensor for q, k, v or for gate, up     whatever the file has
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
// What has no member yet:
//
//   - Linear, YaRN and long/short scaling of a rotation: members of rope beside
//     factors, all of which end in its frequencies. A YaRN magnitude goes into
//     attention.scale.
//   - Clamped queries, keys and values, a gate on the output of attention, a scale
//     of queries by position: members of attention, a step each.
//   - Mixtures of experts: a part beside feedForward, with the router's tensor, the
//     experts' and how a row's choice is weighed. Shared experts are a sum of it
//     and a feedForward. Blocks that are dense first are an if over the number.
//   - Latent attention, gated delta nets, mamba2, short convolutions: parts beside
//     attention. The recurrent ones need a state that isn't pages, which will be
//     to a program what a Cache is. Hybrids are an if over the block's number, or
//     a sum.
//   - Embeddings for each block, and caches that blocks share: the first is a wider
//     stream of which a block reads a slice, the second a Cache of another layer.
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

// declaration reads a file's keys and says what the model is made of. A key that
// is wrong is an error that the keys keep.
type declaration func(k *keys) decoder

var architectures = map[string]declaration{}

func declare(name string, d declaration) { architectures[name] = d }

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
	declared, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("%s: architecture %s is not supported; Leat runs %s", f.Name(), gguf.Quote(name), strings.Join(supported(), ", "))
	}
	return declared.build(f, name)
}

// build makes the model that an architecture declares.
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

func supported() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
