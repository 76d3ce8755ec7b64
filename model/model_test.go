package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
)

func TestLayersInForwardOrder(t *testing.T) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	var names []string
	for _, l := range m.Layers {
		names = append(names, l.Name())
	}
	assert.Equal(t, []string{"embedding", "block 0", "block 1", "block 2", "block 3", "block 4", "output head"}, names)
	assert.Equal(t, 512, m.Vocab)
	assert.Equal(t, 128, m.Context)
	assert.Equal(t, 64, m.Width)
	assert.Equal(t, "llama", m.Name)
	require.NoError(t, m.Close())
}

// What a file gets wrong, or asks for and Leat doesn't have, is refused by name.
func TestRefused(t *testing.T) {
	kv := func(key string, v any) gguftest.Llama {
		return gguftest.Llama{KVs: []gguftest.KV{{Key: key, Value: v}}}
	}
	tensor := func(name string, typ gguf.Type, dims ...uint64) gguftest.Llama {
		return gguftest.Llama{Tensors: []gguftest.Tensor{{Name: name, Type: typ, Dims: dims}}}
	}
	for name, c := range map[string]struct {
		file gguftest.Llama
		says []string
	}{
		"no architecture":          {gguftest.Llama{DropKeys: []string{"general.architecture"}}, []string{"general.architecture"}},
		"another architecture":     {gguftest.Llama{Arch: "quill"}, []string{"quill", "llama, qwen2"}},
		"architecture a number":    {kv("general.architecture", uint32(3)), []string{"general.architecture"}},
		"experts":                  {gguftest.Llama{Experts: 4}, []string{"expert_count", "not supported"}},
		"rope scaling":             {kv("llama.rope.scaling.type", "yarn"), []string{"rope.scaling.type", "yarn"}},
		"rope factor":              {kv("llama.rope.scaling.factor", float32(4)), []string{"rope.scaling.factor"}},
		"a sliding window":         {kv("llama.attention.sliding_window", uint32(64)), []string{"sliding_window", "not supported"}},
		"a scale of logits":        {kv("llama.logit_scale", float32(0.5)), []string{"logit_scale"}},
		"attention to the future":  {kv("llama.attention.causal", false), []string{"attention.causal"}},
		"rope factors of zero":     {tensor("rope_freqs.weight", gguf.F32, 8), []string{"rope_freqs.weight", "element 0 is 0"}},
		"too few rope factors":     {tensor("rope_freqs.weight", gguf.F32, 7), []string{"rope_freqs.weight", "[7]", "[8]"}},
		"rope factors in F16":      {tensor("rope_freqs.weight", gguf.F16, 8), []string{"rope_freqs.weight", "F16"}},
		"no block count":           {gguftest.Llama{DropKeys: []string{"llama.block_count"}}, []string{"llama.block_count"}},
		"more blocks than there":   {kv("llama.block_count", uint32(3)), []string{"blk.2."}},
		"fewer blocks than there":  {kv("llama.block_count", uint32(1)), []string{"blk.1.", "block count"}},
		"billions of blocks":       {kv("llama.block_count", uint32(2e9)), []string{"llama.block_count", "2000000000"}},
		"no blocks":                {kv("llama.block_count", uint32(0)), []string{"llama.block_count"}},
		"a count that is text":     {kv("llama.block_count", "two"), []string{"llama.block_count"}},
		"a count below zero":       {kv("llama.block_count", int32(-2)), []string{"llama.block_count"}},
		"more heads":               {gguftest.Llama{KVs: []gguftest.KV{{Key: "llama.attention.head_count", Value: uint32(8)}}, DropKeys: []string{"llama.rope.dimension_count"}}, []string{"attn_k"}},
		"heads that don't divide":  {kv("llama.attention.head_count", uint32(3)), []string{"head_count"}},
		"key heads don't divide":   {kv("llama.attention.head_count_kv", uint32(3)), []string{"head_count_kv"}},
		"other key heads":          {kv("llama.attention.head_count_kv", uint32(4)), []string{"attn_k"}},
		"heads for three blocks":   {kv("llama.attention.head_count", []int32{4, 4, 4}), []string{"head_count", "3", "2 blocks"}},
		"heads of one block are 0": {kv("llama.attention.head_count", []int32{4, 0}), []string{"head_count", "block 1"}},
		"heads below zero":         {kv("llama.attention.head_count_kv", []int32{2, -2}), []string{"head_count_kv", "block 1"}},
		"heads a list of numbers":  {kv("llama.attention.head_count", []float32{4, 4}), []string{"head_count"}},
		"other heads in a block":   {kv("llama.attention.head_count_kv", []int32{2, 4}), []string{"blk.1.attn_k.weight"}},
		"another width":            {kv("llama.embedding_length", uint32(128)), []string{"token_embd.weight", "128"}},
		"another hidden width":     {kv("llama.feed_forward_length", uint32(256)), []string{"ffn_"}},
		"an odd rotation":          {kv("llama.rope.dimension_count", uint32(7)), []string{"rope.dimension_count"}},
		"too much rotation":        {kv("llama.rope.dimension_count", uint32(32)), []string{"rope.dimension_count"}},
		"eps of zero":              {kv("llama.attention.layer_norm_rms_epsilon", float32(0)), []string{"epsilon"}},
		"one enormous head":        {gguftest.Llama{Heads: 1, KVHeads: 1, KVs: []gguftest.KV{{Key: "llama.attention.key_length", Value: uint32(1<<31 - 2)}, {Key: "llama.rope.dimension_count", Value: uint32(1<<31 - 2)}}}, []string{"attn_q"}},
		"other value heads":        {kv("llama.attention.value_length", uint32(8)), []string{"value_length"}},
		"another vocabulary":       {kv("llama.vocab_size", uint32(400)), []string{"vocab_size", "320"}},
		"fewer tokens":             {gguftest.Llama{KVs: gguftest.Vocabulary(300)}, []string{"300", "320"}},
		"no embedding":             {gguftest.Llama{DropTensors: []string{"token_embd.weight"}}, []string{"token_embd.weight"}},
		"no norm":                  {gguftest.Llama{DropTensors: []string{"blk.1.ffn_norm.weight"}}, []string{"blk.1.ffn_norm.weight"}},
		"a bias of a norm":         {tensor("blk.0.attn_norm.bias", gguf.F32, 64), []string{"blk.0.attn_norm.bias"}},
		"a bias of the embedding":  {tensor("token_embd.bias", gguf.F32, 64), []string{"token_embd.bias"}},
		"a short bias":             {tensor("blk.0.attn_q.bias", gguf.F32, 32), []string{"blk.0.attn_q.bias", "[32]", "[64]"}},
		"a bias that is a matrix":  {tensor("blk.0.ffn_up.bias", gguf.F32, 64, 2), []string{"blk.0.ffn_up.bias"}},
		"a quantized bias":         {tensor("blk.0.attn_output.bias", gguf.Q8_0, 64), []string{"blk.0.attn_output.bias", "Q8_0"}},
		"qwen2 without a bias":     {gguftest.Llama{Arch: "qwen2", DropTensors: []string{"blk.1.attn_k.bias"}}, []string{"blk.1.attn_k.bias"}},
		"qwen2 with another bias":  {gguftest.Llama{Arch: "qwen2", Tensors: []gguftest.Tensor{{Name: "blk.0.ffn_up.bias", Dims: []uint64{128}}}}, []string{"blk.0.ffn_up.bias"}},
		"qwen2 with a window":      {gguftest.Llama{Arch: "qwen2", KVs: []gguftest.KV{{Key: "qwen2.attention.sliding_window", Value: uint32(64)}}}, []string{"qwen2.attention.sliding_window", "not supported"}},
		"qwen2 with experts":       {gguftest.Llama{Arch: "qwen2", Experts: 4}, []string{"qwen2.expert_count", "not supported"}},
		"a fused short of rows":    {gguftest.Llama{DropTensors: []string{"blk.0.attn_q.weight"}, Tensors: []gguftest.Tensor{{Name: "blk.0.attn_qkv.weight", Dims: []uint64{64, 64}}}}, []string{"blk.0.attn_qkv.weight", "[64, 128]"}},
		"a fused and its parts":    {tensor("blk.0.attn_qkv.weight", gguf.F32, 64, 128), []string{"blk.0.attn_qkv.weight", "not part of the architecture"}},
		"no gate":                  {gguftest.Llama{DropTensors: []string{"blk.0.ffn_gate.weight"}}, []string{"no tensor blk.0.ffn_gate.weight"}},
		"a turned matrix":          {tensor("blk.0.ffn_up.weight", gguf.F32, 128, 64), []string{"blk.0.ffn_up.weight"}},
		"a type that isn't here":   {tensor("blk.0.attn_q.weight", gguf.I8, 64, 64), []string{"blk.0.attn_q.weight", "I8"}},
		"a quantized norm":         {tensor("output_norm.weight", gguf.Type(8), 64), []string{"output_norm.weight", "Q8_0"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := model.Parse("some.gguf", c.file.Build())
			require.Error(t, err)
			for _, word := range c.says {
				assert.ErrorContains(t, err, word)
			}
			assert.True(t, strings.HasPrefix(err.Error(), "some.gguf: "), err)
			assert.Equal(t, 1, strings.Count(err.Error(), "some.gguf"), err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestMalformedFilesAreRefused(t *testing.T) {
	files, _ := filepath.Glob("../../shared/badgguf/*.gguf")
	if len(files) == 0 {
		t.Skip("the malformed files are not beside the repository (../shared/badgguf)")
	}
	for _, f := range files {
		_, err := model.Open(f)
		require.Error(t, err, f)
		assert.ErrorContains(t, err, filepath.Base(f))
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestOpenClosesWhatItRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Llama{Experts: 2}.Build(), 0o600))
	_, err := model.Open(path)
	require.ErrorContains(t, err, "expert")

	require.NoError(t, os.WriteFile(path, gguftest.Llama{}.Build(), 0o600))
	m, err := model.Open(path)
	require.NoError(t, err)
	assert.Len(t, m.Layers, 4)
	require.NoError(t, m.Close())
}
