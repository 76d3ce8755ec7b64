package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// keys reads an architecture's own keys, which begin with its name. It keeps
// the first error, so that an architecture reads as a list of what it needs. It
// also remembers which keys were read: rest refuses a file that changes the
// arithmetic by a key that the architecture hasn't read.
type keys struct {
	file   *gguf.File
	prefix string
	read   map[string]bool
	lists  map[string][]int // that sizes has read
	width  int              // of the stream of activations
	blocks int
	err    error
}

func newKeys(f *gguf.File, architecture string) *keys {
	return &keys{file: f, prefix: architecture + ".", read: map[string]bool{}, lists: map[string][]int{}}
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

// key returns a key's whole name, and remembers that it was read.
func (k *keys) key(name string) string {
	k.read[name] = true
	return k.prefix + name
}

// has says whether the file has the key.
func (k *keys) has(name string) bool {
	_, ok := k.file.Value(k.prefix + name)
	return ok
}

// size reads a count that must be from 1 to 2³¹-1. Without a default (0) the key
// must be there.
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
	return 1 // a value that later checks can calculate with
}

// sizeOf reads a count for block i: one for all blocks, as size reads it, or a
// list of one for each.
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

// list reads a list of one count for each block.
func (k *keys) list(name string) []int {
	key := k.key(name)
	sizes := slices.Repeat([]int{1}, k.blocks)
	list, _, err := k.file.Ints(key)
	if err != nil {
		k.fail(err)
		return sizes
	}
	if len(list) != k.blocks {
		k.wrong("key %s is a list of %d, not one for each of %d blocks", key, len(list), k.blocks)
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

// number reads a number that is greater than 0 as a float32 too: the op set knows
// no other. Without a default (0) the key must be there.
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
		k.wrong("key %s is %v: it must be a number above 0, within what a float32 can hold", key, v)
	default:
		return v
	}
	return 1
}

// smallest is the smallest float32 that has all its bits.
const smallest = 0x1p-126

// decoder reads what every declaration begins with: how wide the stream is, how
// many blocks there are, which are empty yet, and how many positions the model
// was trained for.
func (k *keys) decoder() decoder {
	k.width, k.blocks = k.size("embedding_length", 0), k.size("block_count", 0)
	if tensors := len(k.file.Tensors()); k.blocks > tensors {
		k.wrong("key %sblock_count is %d, but the file has %d tensors", k.prefix, k.blocks, tensors)
		k.blocks = 1
	}
	return decoder{width: k.width, context: k.size("context_length", 0), blocks: make([]block, k.blocks)}
}

// attention reads how large the heads of block i are, and how they are rotated.
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
		k.wrong("%d heads of %d elements are more than Leat can address", h.queries, h.dim)
	case r.base < 1: // frequencies above 1, whose product with a position has no end
		k.wrong("key %srope.freq_base is %v: it must be at least 1", k.prefix, r.base)
	case r.dims%2 != 0 || r.dims > h.dim:
		k.wrong("key %srope.dimension_count is %d: it must be even and at most the head's %d", k.prefix, r.dims, h.dim)
	}
	return attention{heads: h, rope: r}
}

// swiGLU reads how wide the feed-forward layer of block i is.
func (k *keys) swiGLU(i int) feedForward {
	return feedForward{hidden: k.sizeOf(i, "feed_forward_length", 0), activation: kernels.SiLU, gated: true}
}

// rmsNorm reads what a norm adds to the mean square.
func (k *keys) rmsNorm(tensor string) norm {
	return norm{kind: rmsNorm, tensor: tensor, eps: float32(k.number("attention.layer_norm_rms_epsilon", 0))}
}

// changes are keys that change an architecture's arithmetic. A key's value is
// neutral, that is, leaves the arithmetic as it is, if it is at most neutral (a
// uint64), one of the numbers of neutral, or equal to it (a bool or a string). The
// names are those that GGUF files use.
var changes = []struct {
	name    string
	neutral any
	says    string // what isn't there; "": the key alone says it
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

// rest refuses a file that changes the architecture by a key that wasn't read.
// Other keys that weren't read are none of the architecture's business.
func (k *keys) rest() {
	for _, c := range changes {
		if k.read[c.name] {
			continue
		}
		value, ok, err := k.changed(k.prefix+c.name, c.neutral)
		if err != nil {
			k.fail(err)
		} else if ok {
			if c.says == "" {
				c.says = "that is"
			}
			k.wrong("key %s%s is %s: %s not supported yet", k.prefix, c.name, value, c.says)
		}
	}
}

// changed returns a key's value as text, where the file has the key and its
// value isn't neutral.
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
