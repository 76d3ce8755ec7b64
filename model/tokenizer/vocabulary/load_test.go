package vocabulary_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

func kv(key string, value any) gguftest.KV {
	return gguftest.KV{Key: "tokenizer.ggml." + key, Value: value}
}

func TestAVocabularyHasATokensTextKindAndByte(t *testing.T) {
	v := load(t, []string{"a", "<s>", "<0x0A>", "<|im_end|>"}, []int32{normal, control, 6, normal})
	assert.Equal(t, 4, v.Size())
	for id, want := range []vocabulary.Token{
		{Text: "a", Kind: vocabulary.Normal},
		{Text: "<s>", Kind: vocabulary.Control},
		{Text: "<0x0A>", Kind: vocabulary.Byte, Byte: '\n'},
		{Text: "<|im_end|>", Kind: vocabulary.Control}, // whatever the file says
	} {
		got, ok := v.Token(int32(id))
		assert.True(t, ok)
		assert.Equal(t, want, got)
		assert.Equal(t, want.Text, v.Text(int32(id)))
	}
	for _, id := range []int32{vocabulary.None, 4, math.MaxInt32, math.MinInt32} {
		_, ok := v.Token(id)
		assert.False(t, ok)
		assert.Empty(t, v.Text(id))
		assert.False(t, v.IsEnd(id))
	}
	bytes, err := v.Bytes()
	require.NoError(t, err)
	assert.EqualValues(t, 2, bytes['\n'])
	assert.Equal(t, vocabulary.None, bytes['a'])
}

func TestThereMayBeSeveralEnds(t *testing.T) {
	v, err := loadKeys(t, kv("tokens", []string{"<|end|>", "a", "<|end|>", "b", "c", "d"}),
		kv("eos_token_id", uint32(5)), kv("eot_token_id", uint32(4)), kv("eom_token_id", uint32(5)), kv("unknown_token_id", uint32(1)))
	require.NoError(t, err)
	var ends []int32
	for id := range int32(v.Size()) {
		if v.IsEnd(id) {
			ends = append(ends, id)
		}
	}
	assert.Equal(t, []int32{0, 2, 4, 5}, ends)
	eos, ok := v.EOS()
	assert.True(t, ok)
	assert.EqualValues(t, 5, eos)
	_, ok = v.BOS()
	assert.False(t, ok)
	unk, ok := v.Unknown()
	assert.True(t, ok)
	assert.EqualValues(t, 1, unk)
	assert.Empty(t, v.AppendBOS(nil))
}

// What is assumed where a file says nothing, and only if the tokens agree.
func TestDefaults(t *testing.T) {
	d := vocabulary.Defaults{
		Kind: func(text string) vocabulary.Kind {
			kinds := map[string]vocabulary.Kind{"?": vocabulary.Unknown, "<s>": vocabulary.Control, "a": vocabulary.Normal}
			return kinds[text]
		},
		Unknown: 0, BOS: 1, EOS: 2, AddBOS: true,
	}
	f, err := gguf.Parse("vocab", gguftest.Build([]gguftest.KV{kv("tokens", []string{"?", "<s>", "a"})}, nil))
	require.NoError(t, err)
	v, err := vocabulary.Load(f, d)
	require.NoError(t, err)
	_, ok := v.Unknown()
	assert.True(t, ok)
	assert.Equal(t, []int32{7, 1}, v.AppendBOS([]int32{7}))
	_, ok = v.EOS()
	assert.False(t, ok, "token 2 isn't a control token")

	d.BOS, d.AddBOS = 9, true
	v, err = vocabulary.Load(f, d)
	require.NoError(t, err)
	_, ok = v.BOS()
	assert.False(t, ok, "there is no token 9")
}

// A file of a few megabytes may claim millions of tokens.
func TestTooManyTokensAreRefusedBeforeTheyAreRead(t *testing.T) {
	const n = 1<<20 + 1
	_, err := loadKeys(t, kv("tokens", make([]string, n)))
	assert.ErrorContains(t, err, `vocab: key "tokenizer.ggml.tokens" has 1048577 elements: a vocabulary may have up to 1048576`)
	_, err = loadKeys(t, kv("tokens", []string{"a"}), kv("token_type", make([]int32, n)))
	assert.ErrorContains(t, err, `vocab: key "tokenizer.ggml.token_type" has 1048577 elements`)
}

// A token of megabytes would be shown each time that a model makes it.
func TestATokenHasALimit(t *testing.T) {
	load(t, []string{strings.Repeat("a", 4096)}, []int32{normal})
	_, err := loadKeys(t, kv("tokens", []string{"b", strings.Repeat("a", 1<<20)}))
	require.ErrorContains(t, err, `vocab: token 1, "aaa`)
	require.ErrorContains(t, err, "has 1048576 bytes: a token may have up to 4096")
	assert.Less(t, len(err.Error()), 300)
}

// Writers say that there is no such token with -1, of whatever type they have.
func TestMinusOneIsNoToken(t *testing.T) {
	for _, none := range []any{int8(-1), int16(-1), int32(-1), int64(-1), uint32(math.MaxUint32)} {
		v, err := loadKeys(t, kv("tokens", []string{"a"}), kv("eos_token_id", none), kv("eot_token_id", none))
		require.NoError(t, err, "%T", none)
		_, ok := v.EOS()
		assert.False(t, ok)
		assert.False(t, v.IsEnd(0))
	}
	for _, bad := range []any{int32(-2), int64(math.MaxInt64), uint64(math.MaxUint64), uint8(1)} {
		_, err := loadKeys(t, kv("tokens", []string{"a"}), kv("eos_token_id", bad))
		require.ErrorContains(t, err, `vocab: key "tokenizer.ggml.eos_token_id" is`, "%T", bad)
	}
}

func TestErrorsNameATokenOnOneLine(t *testing.T) {
	long := "\n" + string(make([]byte, 1000))
	v := load(t, []string{long, "a"}, []int32{normal, normal})
	assert.EqualError(t, v.Errorf(1, "its score is %d", 3), `token 1, "a": its score is 3`)
	err := v.Errorf(0, "is bad")
	assert.NotContains(t, err.Error(), "\n")
	assert.Less(t, len(err.Error()), 500)
	assert.ErrorIs(t, v.Errorf(0, "%w", assert.AnError), assert.AnError)
}
