package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// keys reads an architecture's keys, which begin with its name. It keeps the first error, so that
// declarations need no error handling. It also records which keys were read, so that rest can
// return an error for a key that changes the arithmetic and was not read.
type keys struct {
	file   *gguf.File
	prefix string           // the architecture's name and a dot
	read   map[string]bool  // the keys that were read, without the prefix
	lists  map[string][]int // the lists that sizeOf has read
	width  int              // of the activations between layers
	blocks int
	err    error // the first error
}

func newKeys(f *gguf.File, architecture string) *keys {
	return &keys{file: f, prefix: architecture + ".", read: map[string]bool{}, lists: map[string][]int{}}
}

// fail sets the error, unless there is one.
func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// wrong sets an error with a formatted message, which it prefixes with the file's name.
func (k *keys) wrong(format string, args ...any) {
	k.fail(fmt.Errorf("%s: "+format, append([]any{k.file.Name()}, args...)...))
}

// key returns a key's full name, and records that it was read.
func (k *keys) key(name string) string {
	k.read[name] = true
	return k.prefix + name
}

// has reports whether the file has the key.
func (k *keys) has(name string) bool {
	_, ok := k.file.Value(k.prefix + name)
	return ok
}

// size reads a number from 1 to 2³¹-1. If the file lacks the key, it returns otherwise; if that is
// 0, it is an error.
func (k *keys) size(name string, otherwise int) int {
	key := k.key(name)
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
	return 1 // so that later checks don't divide by zero
}

// sizeOf reads a number for block i. The key has one number for all blocks, which is read like
// size does, or a list with one number for each block.
func (k *keys) sizeOf(i int, name string, otherwise int) int {
	if v, ok := k.file.Value(k.prefix + name); !ok || v.Kind() != gguf.Array {
		return k.size(name, otherwise)
	}
	list, ok := k.lists[name]
	if !ok {
		list = k.list(name)
		k.lists[name] = list
	}
	return list[i]
}

// list reads a list with one number for each block.
func (k *keys) list(name string) []int {
	key := k.key(name)
	sizes := slices.Repeat([]int{1}, k.blocks)
	list, _, err := k.file.Ints(key)
	if err != nil {
		k.fail(err)
		return sizes
	}
	if len(list) != k.blocks {
		k.wrong("key %s is a list of %d numbers, not one for each of %d blocks", key, len(list), k.blocks)
		return sizes
	}
	for i, v := range list {
		if v <= 0 {
			k.wrong("key %s is %d for block %d: it must be at least 1", key, v, i)
			break
		}
		sizes[i] = int(v)
	}
	return sizes
}

// number reads a positive number that is also a normal number as a float32, since the op set uses
// float32. If the file lacks the key, it returns otherwise; if that is 0, it is an error.
func (k *keys) number(name string, otherwise float64) float64 {
	key := k.key(name)
	v, ok, err := k.file.Float(key)
	switch {
	case err != nil:
		k.fail(err)
	case !ok && otherwise == 0:
		k.wrong("no key %s", key)
	case !ok:
		return otherwise
	case !(v >= smallest && v <= math.MaxFloat32):
		k.wrong("key %s is %v: it must be a number above 0 and within the range of a float32", key, v)
	default:
		return v
	}
	return 1
}

// smallest is the smallest positive normal float32.
const smallest = 0x1p-126

// decoder returns a description with the file's width and context and the right number of blocks,
// which are empty. Every declaration calls it first.
func (k *keys) decoder() decoder {
	k.width, k.blocks = k.size("embedding_length", 0), k.size("block_count", 0)
	if tensors := len(k.file.Tensors()); k.blocks > tensors {
		k.wrong("key %sblock_count is %d, but the file has %d tensors", k.prefix, k.blocks, tensors)
		k.blocks = 1
	}
	return decoder{width: k.width, context: k.size("context_length", 0), blocks: make([]block, k.blocks)}
}

// attention returns block i's attention, with heads and rope set.
func (k *keys) attention(i int) (a attention) {
	h := heads{queries: k.sizeOf(i, "attention.head_count", 0)}
	h.keys = k.sizeOf(i, "attention.head_count_kv", h.queries)
	if k.err == nil && k.width%h.queries != 0 && !k.has("attention.key_length") {
		k.wrong("key %sembedding_length is %d, not a multiple of %sattention.head_count %d", k.prefix, k.width, k.prefix, h.queries)
	}
	h.dim = k.size("attention.key_length", max(1, k.width/h.queries))
	if v := k.size("attention.value_length", h.dim); v != h.dim {
		k.wrong("key %sattention.value_length is %d and key_length %d: different lengths are not supported yet", k.prefix, v, h.dim)
	}
	r := rope{dims: k.size("rope.dimension_count", h.dim), base: k.number("rope.freq_base", 10000)}
	switch {
	case k.err != nil:
	case h.queries%h.keys != 0:
		k.wrong("key %sattention.head_count is %d, not a multiple of head_count_kv %d", k.prefix, h.queries, h.keys)
	case int64(h.queries)*int64(h.dim) > math.MaxInt32:
		k.wrong("%d heads of %d elements are more than Leat supports", h.queries, h.dim)
	case r.base < 1: // frequencies above 1, whose product with a position can overflow
		k.wrong("key %srope.freq_base is %v: it must be at least 1", k.prefix, r.base)
	case r.dims%2 != 0 || r.dims > h.dim:
		k.wrong("key %srope.dimension_count is %d: it must be even and at most the head's %d", k.prefix, r.dims, h.dim)
	}
	return attention{heads: h, rope: r}
}

// swiGLU returns block i's gated feed-forward network, with SiLU as its activation.
func (k *keys) swiGLU(i int) feedForward {
	return feedForward{hidden: k.sizeOf(i, "feed_forward_length", 0), activation: kernels.SiLU, gated: true}
}

// rmsNorm returns an RMSNorm with the file's epsilon. tensor is the name of its gain, without
// ".weight".
func (k *keys) rmsNorm(tensor string) norm {
	return norm{kind: rmsNorm, tensor: tensor, eps: float32(k.number("attention.layer_norm_rms_epsilon", 0))}
}

// changes are the keys of GGUF files that change an architecture's arithmetic, unless their value
// is neutral. A value is neutral if it is at most neutral, for a uint64; one of the numbers in
// neutral, for a []float64; or equal to neutral, for a bool or a string.
var changes = []struct {
	name    string
	neutral any
	subject string // of the error "… not supported yet"; may be empty
}{
	{"expert_count", uint64(0), "experts (Mixtral) are"},
	{"attention.sliding_window", uint64(0), "sliding windows are"},
	{"rope.scaling.type", "none", "RoPE scaling is"},
	{"rope.scaling.factor", []float64{0, 1}, "RoPE scaling is"},
	{"rope.scale_linear", []float64{0, 1}, "RoPE scaling is"},
	{"attention.clamp_kqv", []float64{0}, ""},
	{"attention.max_alibi_bias", []float64{0}, ""},
	{"attention.scale", []float64{0}, ""},
	{"attn_logit_softcapping", []float64{0}, ""},
	{"final_logit_softcapping", []float64{0}, ""},
	{"logit_scale", []float64{0, 1}, ""},
	{"residual_scale", []float64{0, 1}, ""},
	{"embedding_scale", []float64{0, 1}, ""},
	{"attention.causal", true, ""},
	{"use_parallel_residual", false, ""},
}

// rest sets an error if the file has a key of changes with a value that is not neutral, and the
// declaration did not read that key. Other keys that were not read are ignored.
func (k *keys) rest() {
	for _, c := range changes {
		if k.read[c.name] {
			continue
		}
		value, ok, err := k.changed(k.prefix+c.name, c.neutral)
		if err != nil {
			k.fail(err)
		} else if ok {
			if c.subject == "" {
				c.subject = "that is"
			}
			k.wrong("key %s%s is %s: %s not supported yet", k.prefix, c.name, value, c.subject)
		}
	}
}

// changed returns a key's value as text. ok is false if the file lacks the key or the value is
// neutral.
func (k *keys) changed(key string, neutral any) (value string, ok bool, err error) {
	switch neutral := neutral.(type) {
	case uint64:
		v, ok, err := k.file.Uint(key)
		return fmt.Sprint(v), ok && v > neutral, err
	case []float64:
		v, ok, err := k.file.Float(key)
		return fmt.Sprint(v), ok && !slices.Contains(neutral, v), err
	case bool:
		v, ok, err := k.file.Bool(key)
		return fmt.Sprint(v), ok && v != neutral, err
	case string:
		v, ok, err := k.file.String(key)
		return gguf.Quote(v), ok && v != neutral, err
	}
	panic(fmt.Sprintf("arch: a neutral value of type %T", neutral))
}
