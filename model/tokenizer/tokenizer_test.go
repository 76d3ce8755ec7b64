package tokenizer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

const modelKey = "tokenizer.ggml.model"

func parse(t testing.TB, l gguftest.Llama) (tokenizer.Tokenizer, error) {
	t.Helper()
	f, err := gguf.Parse("vocab", l.Build())
	require.NoError(t, err)
	return tokenizer.New(f)
}

func TestTheFileNamesTheKind(t *testing.T) {
	tok, err := parse(t, gguftest.Llama{})
	require.NoError(t, err)
	assert.Equal(t, "<s>", tok.Text(1))
	for want, value := range map[string]any{
		`vocab: tokenizer model "gpt2" is not supported yet; llama is`:           "gpt2",
		`vocab: key "tokenizer.ggml.model" is of type uint32, not string`:        uint32(1),
		`vocab: key "tokenizer.ggml.model" is "none": the file has no tokenizer`: "none",
	} {
		tok, err := parse(t, gguftest.Llama{KVs: []gguftest.KV{{Key: modelKey, Value: value}}})
		require.EqualError(t, err, want)
		assert.Nil(t, tok)
		assert.Equal(t, value == "none", errors.Is(err, tokenizer.ErrNone))
	}
}

func TestAFileMayHaveNoTokenizer(t *testing.T) {
	tok, err := parse(t, gguftest.Llama{DropKeys: []string{modelKey}})
	require.ErrorIs(t, err, tokenizer.ErrNone)
	assert.ErrorContains(t, err, `vocab: key "tokenizer.ggml.model" is missing`)
	assert.Nil(t, tok)
}

// An error of the implementation comes with no tokenizer, not with one that is a
// nil pointer.
func TestAMalformedVocabularyIsNoTokenizer(t *testing.T) {
	tok, err := parse(t, gguftest.Llama{DropKeys: []string{"tokenizer.ggml.scores"}})
	require.Error(t, err)
	assert.True(t, tok == nil)
}

func TestSharedVocabulariesOfOtherModels(t *testing.T) {
	for _, name := range []string{"gpt-2", "falcon", "deepseek-coder"} {
		f, err := gguf.Open("../../../shared/tokenizers/ggml-vocab-" + name + ".gguf")
		if err != nil {
			t.Skip("the shared vocabularies are not beside this repository")
		}
		_, err = tokenizer.New(f)
		assert.ErrorContains(t, err, `tokenizer model "gpt2" is not supported yet; llama is`)
		require.NoError(t, f.Close())
	}
}
