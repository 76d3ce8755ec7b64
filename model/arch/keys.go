package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/leat-dev/leat/model/gguf"
)

// keys reads an architecture's own keys, which begin with its name. It keeps
// the first error, so that an architecture reads as a list of what it needs.
type keys struct {
	file   *gguf.File
	prefix string
	err    error
}

func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// wrong is an error of the file's own keys.
func (k *keys) wrong(format string, args ...any) {
	k.fail(fmt.Errorf("%s: "+format, append([]any{k.file.Name()}, args...)...))
}

// size reads a count that must be from 1 to 2³¹-1. Without a default (0) the key
// must be there.
func (k *keys) size(name string, otherwise int) int {
	key := k.prefix + name
	v, ok, err := k.file.Uint(key)
	switch {
	case err != nil:
		k.fail(err)
	case !ok && otherwise == 0:
		k.wrong("no key %s", key)
	case !ok:
		return otherwise
	case v == 0 || v > math.MaxInt32:
		k.wrong("key %s is %d: it must be from 1 to %d", key, v, math.MaxInt32)
	default:
		return int(v)
	}
	return 1 // a value that later checks can calculate with
}

// number reads a finite number greater than 0.
func (k *keys) number(name string, otherwise float64) float64 {
	key := k.prefix + name
	v, ok, err := k.file.Float(key)
	switch {
	case err != nil:
		k.fail(err)
	case !ok && otherwise == 0:
		k.wrong("no key %s", key)
	case !ok:
		return otherwise
	case !(v > 0) || math.IsInf(v, 0):
		k.wrong("key %s is %v: it must be a number above 0", key, v)
	default:
		return v
	}
	return 1
}

// without refuses a file in which a count is above 0: it asks for what the
// architecture doesn't have here.
func (k *keys) without(name, what string) {
	key := k.prefix + name
	v, ok, err := k.file.Uint(key)
	if err != nil {
		k.fail(err)
	} else if ok && v > 0 {
		k.wrong("key %s is %d: %s not supported yet", key, v, what)
	}
}

// changes are keys that change an architecture's mathematics, with the values
// that leave it as it is. The names are those that GGUF files use.
var changes = []struct {
	name    string
	neutral []float64
}{
	{"attention.clamp_kqv", []float64{0}},
	{"attention.max_alibi_bias", []float64{0}},
	{"attention.scale", []float64{0}},
	{"attn_logit_softcapping", []float64{0}},
	{"final_logit_softcapping", []float64{0}},
	{"logit_scale", []float64{0, 1}},
	{"residual_scale", []float64{0, 1}},
	{"embedding_scale", []float64{0, 1}},
}

// plain refuses a file that changes the architecture by a key.
func (k *keys) plain() {
	for _, c := range changes {
		v, ok, err := k.file.Float(k.prefix + c.name)
		if err != nil {
			k.fail(err)
		} else if ok && !slices.Contains(c.neutral, v) {
			k.wrong("key %s%s is %v: that is not supported yet", k.prefix, c.name, v)
		}
	}
	for name, neutral := range map[string]bool{"attention.causal": true, "use_parallel_residual": false} {
		v, ok, err := k.file.Bool(k.prefix + name)
		if err != nil {
			k.fail(err)
		} else if ok && v != neutral {
			k.wrong("key %s%s is %v: that is not supported yet", k.prefix, name, v)
		}
	}
}

// unscaled refuses a file that scales its rotary positions.
func (k *keys) unscaled() {
	kind, ok, err := k.file.String(k.prefix + "rope.scaling.type")
	if err != nil {
		k.fail(err)
	} else if ok && kind != "none" {
		k.wrong("key %srope.scaling.type is %q: RoPE scaling is not supported yet", k.prefix, kind)
	}
	for _, name := range []string{"rope.scaling.factor", "rope.scale_linear"} {
		v, ok, err := k.file.Float(k.prefix + name)
		if err != nil {
			k.fail(err)
		} else if ok && v != 0 && v != 1 {
			k.wrong("key %s%s is %v: RoPE scaling is not supported yet", k.prefix, name, v)
		}
	}
	if _, ok := k.file.Tensor("rope_freqs.weight"); ok {
		k.wrong("tensor rope_freqs.weight: RoPE scaling is not supported yet")
	}
}
