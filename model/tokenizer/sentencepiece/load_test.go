package sentencepiece_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

func TestMalformedVocabularies(t *testing.T) {
	kv := func(key string, value any) []gguftest.KV {
		return []gguftest.KV{{Key: "tokenizer.ggml." + key, Value: value}}
	}
	// changed is the small vocabulary after a change to its tokens, scores and types.
	changed := func(change func(tokens []string, scores []float32, types []int32)) []gguftest.KV {
		kvs := gguftest.Vocabulary(288)
		change(kvs[1].Value.([]string), kvs[2].Value.([]float32), kvs[3].Value.([]int32))
		return kvs
	}
	for name, c := range map[string]struct {
		kvs  []gguftest.KV
		want string
	}{
		"no tokens":       {kv("tokens", []string{}), `key "tokenizer.ggml.tokens" is missing or empty`},
		"tokens' type":    {kv("tokens", []uint32{1}), `key "tokenizer.ggml.tokens" is of type array of uint32`},
		"scores' type":    {kv("scores", []float64{1}), `key "tokenizer.ggml.scores" is of type array of float64`},
		"fewer scores":    {kv("scores", []float32{1}), "288 tokens and 1 scores: their numbers must be equal"},
		"fewer types":     {kv("token_type", []int32{1}), "288 tokens and 1 token types: their numbers must be equal"},
		"no types at all": {kv("token_type", []int32{}), "288 tokens and 0 token types: their numbers must be equal"},
		"types' type":     {kv("token_type", "x"), `key "tokenizer.ggml.token_type" is of type string`},
		"bos":             {kv("bos_token_id", uint32(288)), `key "tokenizer.ggml.bos_token_id" is 288, and there are 288 tokens`},
		"eos":             {kv("eos_token_id", uint64(1<<32)), `key "tokenizer.ggml.eos_token_id" is 4294967296`},
		"unknown":         {kv("unknown_token_id", int32(-2)), `key "tokenizer.ggml.unknown_token_id" is -2`},
		"eot":             {kv("eot_token_id", uint32(999)), `key "tokenizer.ggml.eot_token_id" is 999`},
		"eos's type":      {kv("eos_token_id", "2"), "is of type string, not an integer"},
		"add_bos":         {kv("add_bos_token", uint8(1)), "is of type uint8, not bool"},
		"space prefix":    {kv("add_space_prefix", "yes"), "is of type string, not bool"},
		"bos to add": {append(kv("add_bos_token", true), kv("bos_token_id", uint32(math.MaxUint32))...),
			`key "tokenizer.ggml.add_bos_token" is true, but the vocabulary has no such token`},
		"NaN score": {changed(func(_ []string, scores []float32, _ []int32) { scores[259] = float32(math.NaN()) }),
			`token 259, "▁": its score is NaN`},
		"infinite score": {changed(func(_ []string, scores []float32, _ []int32) { scores[0] = float32(math.Inf(-1)) }),
			`token 0, "<unk>": its score is -Inf`},
		"type 0": {changed(func(_ []string, _ []float32, types []int32) { types[5] = 0 }), "token 5, \"<0x02>\": its type 0 is not known"},
		"type 7": {changed(func(_ []string, _ []float32, types []int32) { types[5] = 7 }), "its type 7 is not known"},
		"no byte": {changed(func(tokens []string, _ []float32, _ []int32) { tokens[3] = "<0xG0>\n" }),
			`token 3, "<0xG0>\n": its type is that of a byte token`},
		"byte with a sign": {changed(func(tokens []string, _ []float32, _ []int32) { tokens[3] = "<0x+1>" }), "its type is that of a byte token"},
		"byte twice":       {changed(func(tokens []string, _ []float32, _ []int32) { tokens[3] = "<0x01>" }), "tokens 3 and 4 are both byte 0x01"},
		"missing byte": {append(changed(func(_ []string, _ []float32, types []int32) { types[0], types[3+0x41] = 1, 1 }), kv("unknown_token_id", uint32(math.MaxUint32))...),
			"byte 0x41 has no token, and there is no unknown token"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.kvs...)
			require.ErrorContains(t, err, c.want)
			assert.True(t, strings.HasPrefix(err.Error(), "vocab: "), err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestMissingKeys(t *testing.T) {
	for _, key := range []string{"tokens", "scores"} {
		f, err := gguf.Parse("vocab", gguftest.Llama{DropKeys: []string{"tokenizer.ggml." + key}}.Build())
		require.NoError(t, err)
		_, err = tokenizer.New(f)
		require.ErrorContains(t, err, `vocab: key "tokenizer.ggml.`+key+`" is missing`)
	}
}

func TestOptionalIDsMayBeOutOfRange(t *testing.T) {
	_, err := parse(t,
		gguftest.KV{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(math.MaxUint32)},
		gguftest.KV{Key: "tokenizer.ggml.padding_token_id", Value: uint32(5000)})
	assert.NoError(t, err)
}
