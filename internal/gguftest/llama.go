package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// Llama is a small model of the llama architecture with random weights and a working tokenizer.
// The zero value of a field means the default in its comment.
type Llama struct {
	Arch    string    // default "llama"; "qwen2" adds biases of q, k and v
	Type    gguf.Type // of the matrices, default F32; the op set must support it, and widths must be multiples of its block
	Vocab   int       // default 320; at least 288
	Width   int       // default 64
	Hidden  int       // of the feed-forward network; default 128
	Blocks  int       // default 2
	Heads   int       // default 4
	KVHeads int       // default 2
	Context int       // default 128
	Experts int       // if not 0, the feed-forward network is a mixture of that many experts, two for each token
	Tied    bool      // whether the model has no output.weight
	Seed    uint64    // of the random weights

	KVs         []KV     // replace the keys of the same name, or are added
	Tensors     []Tensor // replace the tensors of the same name, or are added
	DropKeys    []string // keys to remove
	DropTensors []string // tensors to remove
}

// Build returns the model's file.
func (l Llama) Build() []byte {
	l.defaults()
	kvs := l.kvs()
	for _, kv := range l.KVs {
		if i := slices.IndexFunc(kvs, func(k KV) bool { return k.Key == kv.Key }); i >= 0 {
			kvs[i] = kv
		} else {
			kvs = append(kvs, kv)
		}
	}
	kvs = slices.DeleteFunc(kvs, func(k KV) bool { return slices.Contains(l.DropKeys, k.Key) })

	tensors := l.tensors()
	for _, t := range l.Tensors {
		if i := slices.IndexFunc(tensors, func(u Tensor) bool { return u.Name == t.Name }); i >= 0 {
			tensors[i] = t
		} else {
			tensors = append(tensors, t)
		}
	}
	tensors = slices.DeleteFunc(tensors, func(t Tensor) bool { return slices.Contains(l.DropTensors, t.Name) })
	return Build(kvs, tensors)
}

func (l *Llama) defaults() {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	if l.Arch == "" {
		l.Arch = "llama"
	}
	set(&l.Vocab, 320)
	set(&l.Width, 64)
	set(&l.Hidden, 128)
	set(&l.Blocks, 2)
	set(&l.Heads, 4)
	set(&l.KVHeads, 2)
	set(&l.Context, 128)
}

func (l *Llama) kvs() []KV {
	a := l.Arch
	kvs := []KV{
		{"general.architecture", a},
		{"general.name", "gguftest"},
		{a + ".context_length", uint32(l.Context)},
		{a + ".embedding_length", uint32(l.Width)},
		{a + ".block_count", uint32(l.Blocks)},
		{a + ".feed_forward_length", uint32(l.Hidden)},
		{a + ".attention.head_count", uint32(l.Heads)},
		{a + ".attention.head_count_kv", uint32(l.KVHeads)},
		{a + ".attention.layer_norm_rms_epsilon", float32(1e-5)},
		{a + ".rope.dimension_count", uint32(l.Width / l.Heads)},
		{a + ".rope.freq_base", float32(10000)},
	}
	if l.Experts > 0 {
		kvs = append(kvs, KV{a + ".expert_count", uint32(l.Experts)}, KV{a + ".expert_used_count", uint32(2)})
	}
	return append(kvs, Vocabulary(l.Vocab)...)
}

// Vocabulary returns the keys of a SentencePiece tokenizer of n tokens, which must be at least
// 288: <unk>, <s>, </s>, the 256 bytes, the space, the letters a to z, "he" and "▁t", and then
// artificial pieces.
func Vocabulary(n int) []KV {
	tokens, types := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	tokens = append(tokens, "▁")
	for c := 'a'; c <= 'z'; c++ {
		tokens = append(tokens, string(c))
	}
	tokens = append(tokens, "he", "▁t")
	for i := len(tokens); i < n; i++ {
		tokens = append(tokens, fmt.Sprintf("▁piece%d", i))
	}
	if len(tokens) > n {
		panic(fmt.Sprintf("gguftest: a vocabulary of %d tokens, fewer than %d", n, len(tokens)))
	}
	scores := make([]float32, len(tokens))
	for i := len(types); i < len(tokens); i++ {
		types = append(types, 1)
		scores[i] = -float32(i)
	}
	return []KV{
		{"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.scores", scores},
		{"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.unknown_token_id", uint32(0)},
		{"tokenizer.ggml.bos_token_id", uint32(1)},
		{"tokenizer.ggml.eos_token_id", uint32(2)},
	}
}

func (l *Llama) tensors() []Tensor {
	rng := rand.New(rand.NewPCG(l.Seed, 1))
	var ts []Tensor
	matrix := func(name string, dims ...int) {
		ts = append(ts, random(rng, name, l.Type, 1/math.Sqrt(float64(dims[0])), 0, dims))
	}
	vector := func(name string, around float64, n int) {
		ts = append(ts, random(rng, name, gguf.F32, 0.1, around, []int{n}))
	}
	kv := l.Width / l.Heads * l.KVHeads
	matrix("token_embd.weight", l.Width, l.Vocab)
	for i := range l.Blocks {
		b := fmt.Sprintf("blk.%d.", i)
		vector(b+"attn_norm.weight", 1, l.Width)
		matrix(b+"attn_q.weight", l.Width, l.Width)
		matrix(b+"attn_k.weight", l.Width, kv)
		matrix(b+"attn_v.weight", l.Width, kv)
		matrix(b+"attn_output.weight", l.Width, l.Width)
		if l.Arch == "qwen2" {
			vector(b+"attn_q.bias", 0, l.Width)
			vector(b+"attn_k.bias", 0, kv)
			vector(b+"attn_v.bias", 0, kv)
		}
		vector(b+"ffn_norm.weight", 1, l.Width)
		if l.Experts > 0 {
			ts = append(ts, random(rng, b+"ffn_gate_inp.weight", gguf.F32, 1, 0, []int{l.Width, l.Experts}))
			matrix(b+"ffn_gate_exps.weight", l.Width, l.Hidden, l.Experts)
			matrix(b+"ffn_up_exps.weight", l.Width, l.Hidden, l.Experts)
			matrix(b+"ffn_down_exps.weight", l.Hidden, l.Width, l.Experts)
			continue
		}
		matrix(b+"ffn_gate.weight", l.Width, l.Hidden)
		matrix(b+"ffn_up.weight", l.Width, l.Hidden)
		matrix(b+"ffn_down.weight", l.Hidden, l.Width)
	}
	vector("output_norm.weight", 1, l.Width)
	if !l.Tied {
		matrix("output.weight", l.Width, l.Vocab)
	}
	return ts
}

// random returns a tensor of normally distributed numbers.
func random(rng *rand.Rand, name string, typ gguf.Type, deviation, mean float64, dims []int) Tensor {
	t := Tensor{Name: name, Type: typ}
	for _, d := range dims {
		t.Dims = append(t.Dims, uint64(d))
	}
	elems, _ := typ.Block()
	blocks := dataBytes(typ, t.Dims) / dataBytes(typ, []uint64{elems})
	x := make([]float32, elems)
	for range blocks {
		for i := range x {
			x[i] = float32(mean + deviation*rng.NormFloat64())
		}
		t.Data = appendBlock(t.Data, typ, x)
	}
	return t
}

// appendBlock appends one block with the elements x.
func appendBlock(b []byte, typ gguf.Type, x []float32) []byte {
	le := binary.LittleEndian
	var largest float32
	for _, v := range x {
		largest = max(largest, v, -v)
	}
	switch typ {
	case gguf.F32:
		return le.AppendUint32(b, math.Float32bits(x[0]))
	case gguf.F16:
		return le.AppendUint16(b, kernels.Float16bits(x[0]))
	case gguf.BF16:
		return le.AppendUint16(b, uint16(math.Float32bits(x[0])>>16))
	case gguf.Q8_0:
		d := largest / 127
		b = le.AppendUint16(b, kernels.Float16bits(d))
		for _, v := range x {
			b = append(b, byte(int8(math.Round(float64(v/d)))))
		}
		return b
	case gguf.Q4_0:
		d := largest / 7
		b = le.AppendUint16(b, kernels.Float16bits(d))
		q := func(v float32) byte { return byte(8 + math.Round(float64(v/d))) }
		for i := range 16 {
			b = append(b, q(x[i])|q(x[i+16])<<4)
		}
		return b
	case gguf.Q4_K:
		return appendQ4_K(b, x)
	case gguf.Q6_K:
		return appendQ6_K(b, x)
	}
	panic(fmt.Sprintf("gguftest: no random weights of type %v", typ))
}
