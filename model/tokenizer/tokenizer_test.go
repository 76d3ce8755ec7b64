package tokenizer_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

const shared = "../../../shared/"

func openShared(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	if _, err := os.Stat(shared + name); err != nil {
		t.Skipf("%s is not beside this repository", name)
	}
	f, err := gguf.Open(shared + name)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	require.NoError(t, f.Close(), "a tokenizer keeps nothing of the file")
	return tok
}

// llamaStrings are the test strings for the Llama vocabulary, and the tokens
// that llama.cpp makes of them.
func llamaStrings(t testing.TB) (texts []string, want [][]int32) {
	t.Helper()
	in, err := os.ReadFile(shared + "tokenizers/ggml-vocab-llama-spm.gguf.inp")
	require.NoError(t, err)
	out, err := os.ReadFile(shared + "tokenizers/ggml-vocab-llama-spm.gguf.out")
	require.NoError(t, err)
	texts = strings.Split(string(in), "\n__ggml_vocab_test__\n")
	for line := range strings.Lines(string(out)) {
		var ids []int32
		for _, word := range strings.Fields(line) {
			id, err := strconv.Atoi(word)
			require.NoError(t, err)
			ids = append(ids, int32(id))
		}
		want = append(want, ids)
	}
	return texts, want
}

func TestEncodePlainEqualsLlamaCpp(t *testing.T) {
	tok := openShared(t, "tokenizers/ggml-vocab-llama-spm.gguf")
	texts, want := llamaStrings(t)
	// What follows the last separator is not a test.
	require.GreaterOrEqual(t, len(want), 40)
	require.Contains(t, []int{len(want), len(want) + 1}, len(texts))
	for i, ids := range want {
		assert.Equalf(t, ids, tok.EncodePlain(texts[i]), "%q", texts[i])
		assert.Equal(t, texts[i], tok.Decode(ids))
	}
}

func TestStories(t *testing.T) {
	tok := openShared(t, "models/stories260K.gguf")
	assert.Equal(t, 512, tok.Size())
	ids := tok.Encode("Once upon a time")
	assert.Equal(t, []int32{1, 403, 407, 261, 378}, ids)
	assert.Equal(t, "Once upon a time", tok.Decode(ids))
	assert.Equal(t, "▁a", tok.Text(261))
	assert.Equal(t, " a", string(tok.Piece(261)))
}

// small is a vocabulary of 288 tokens with the keys given in place of its own,
// or besides.
func small(t testing.TB, kvs ...gguftest.KV) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := parse(t, kvs...)
	require.NoError(t, err)
	return tok
}

func parse(t testing.TB, kvs ...gguftest.KV) (*tokenizer.Tokenizer, error) {
	t.Helper()
	f, err := gguf.Parse("vocab", gguftest.Llama{Vocab: 288, KVs: kvs}.Build())
	require.NoError(t, err)
	return tokenizer.New(f)
}

// vocabulary replaces the tokens by some of one's own, with types; the scores
// fall from the first on.
func vocabulary(tokens []string, types []int32) []gguftest.KV {
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i)
	}
	return []gguftest.KV{
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}
}

// Of the small vocabulary: the bytes start at 3, ▁ is 259, a is 260, "he" 286
// and "▁t" 287.
const (
	byte0  = 3
	blank  = 259
	letter = 260 - 'a'
	he     = 286
	blankT = 287 // "▁t"
)

func TestMergesByScoreThenLeftmost(t *testing.T) {
	tok := small(t)
	assert.Equal(t, []int32{blankT, he}, tok.EncodePlain("the"))
	assert.Equal(t, []int32{blank, he, letter + 'e'}, tok.EncodePlain("hee"))

	// "ab" and "bc" of equal score: the leftmost pair wins, whatever the order
	// in the vocabulary.
	tok = small(t, gguftest.KV{Key: "tokenizer.ggml.tokens", Value: []string{"<unk>", "a", "b", "c", "bc", "ab", "▁"}},
		gguftest.KV{Key: "tokenizer.ggml.scores", Value: []float32{0, 0, 0, 0, -1, -1, 0}},
		gguftest.KV{Key: "tokenizer.ggml.token_type", Value: []int32{2, 1, 1, 1, 1, 1, 1}},
		gguftest.KV{Key: "tokenizer.ggml.bos_token_id", Value: uint32(0xffffffff)},
		gguftest.KV{Key: "tokenizer.ggml.eos_token_id", Value: uint32(0xffffffff)})
	assert.Equal(t, []int32{6, 5, 3}, tok.EncodePlain("abc"))
}

func TestBytesStandForWhatHasNoPiece(t *testing.T) {
	tok := small(t)
	assert.Equal(t, []int32{blank, byte0 + 0xc3, byte0 + 0xa4, letter + 'a', byte0 + '\n'}, tok.EncodePlain("äa\n"))
	assert.Equal(t, "äa\n", tok.Decode(tok.EncodePlain("äa\n")))
	assert.Equal(t, []byte{0xc3}, tok.Piece(byte0+0xc3))
	broken := "a\xff\xe2\x96 b\xe2"
	assert.Equal(t, broken, tok.Decode(tok.EncodePlain(broken)))
}

func TestWithoutBytesAnUnknownTokenStandsForACharacter(t *testing.T) {
	tok := small(t, vocabulary([]string{"<unk>", "<s>", "</s>", "▁", "a", "<0xC3>"}, []int32{2, 3, 3, 1, 1, 6})...)
	assert.Equal(t, []int32{3, 4, 0, 0, 4}, tok.EncodePlain("aäöa"))
	assert.Equal(t, "aa", tok.Decode(tok.EncodePlain("aäöa")))
}

func TestBOSAndEOSAreAddedAsTheFileAsks(t *testing.T) {
	add := func(bos, eos bool) []gguftest.KV {
		return []gguftest.KV{{Key: "tokenizer.ggml.add_bos_token", Value: bos}, {Key: "tokenizer.ggml.add_eos_token", Value: eos}}
	}
	for _, c := range []struct {
		kvs  []gguftest.KV
		want []int32
	}{
		{nil, []int32{1, blank, letter + 'a'}},
		{add(true, true), []int32{1, blank, letter + 'a', 2}},
		{add(false, true), []int32{blank, letter + 'a', 2}},
		{add(false, false), []int32{blank, letter + 'a'}},
	} {
		assert.Equal(t, c.want, small(t, c.kvs...).Encode("a"))
	}
	assert.Equal(t, []int32{1}, small(t).Encode(""))
	assert.Empty(t, small(t).EncodePlain(""))
}

func TestControlTokensAreReadInAPromptOnly(t *testing.T) {
	tok := small(t)
	assert.Equal(t, []int32{1, 1, blank, letter + 'a', 2, blank, letter + 'b', 0}, tok.Encode("<s>a</s>b<unk>"))
	plain := tok.EncodePlain("<s>a</s>")
	assert.NotContains(t, plain, int32(1))
	assert.NotContains(t, plain, int32(2))
	assert.Equal(t, "<s>a</s>", tok.Decode(plain))
	assert.Empty(t, tok.Piece(1))
	assert.Equal(t, "<s>", tok.Text(1))
}

func TestUserDefinedTokensAreFoundInAnyText(t *testing.T) {
	// The letter q, and "qx", are user-defined here: the longer one first.
	kvs := gguftest.Vocabulary(288)
	tokens, types := kvs[1].Value.([]string), kvs[3].Value.([]int32)
	tokens[he], types[he] = "qx", 4
	types[letter+'q'] = 4
	tok := small(t, kvs...)
	want := []int32{blank, letter + 'a', he, letter + 'q', blank, letter + 'b'}
	assert.Equal(t, want, tok.EncodePlain("aqxqb"))
	assert.Equal(t, append([]int32{1}, want...), tok.Encode("aqxqb"))
	assert.Equal(t, "qx", string(tok.Piece(he)))
}

func TestTheSpacePrefixCanBeOff(t *testing.T) {
	tok := small(t, gguftest.KV{Key: "tokenizer.ggml.add_space_prefix", Value: false})
	assert.Equal(t, []int32{letter + 'a'}, tok.EncodePlain("a"))
	assert.Equal(t, []int32{blank, letter + 'a'}, tok.EncodePlain(" a"))
	assert.Equal(t, " a", tok.Decode([]int32{blank, letter + 'a'}))
	assert.Equal(t, " ", tok.Begin().Next(blank))
}

func TestASpaceWithoutAPieceIsSpelledInBytes(t *testing.T) {
	kvs := gguftest.Vocabulary(288)
	kvs[1].Value.([]string)[blank] = "other"
	tok := small(t, kvs...)
	ids := tok.EncodePlain("a b")
	assert.Equal(t, []int32{byte0 + 0xe2, byte0 + 0x96, byte0 + 0x81, letter + 'a'}, ids[:4])
	assert.Equal(t, "a b", tok.Decode(ids))
}

func TestEnds(t *testing.T) {
	tok := small(t)
	bos, ok := tok.BOS()
	assert.True(t, ok)
	assert.EqualValues(t, 1, bos)
	eos, ok := tok.EOS()
	assert.True(t, ok)
	assert.True(t, tok.IsEnd(eos))
	assert.False(t, tok.IsEnd(bos))
	assert.False(t, tok.IsEnd(-1))

	kvs := gguftest.Vocabulary(288)
	kvs[1].Value.([]string)[he] = "<|im_end|>" // of a type that isn't right
	tok = small(t, append(kvs, gguftest.KV{Key: "tokenizer.ggml.eot_token_id", Value: uint32(letter + 'z')},
		gguftest.KV{Key: "tokenizer.ggml.eos_token_id", Value: uint32(0xffffffff)})...)
	_, ok = tok.EOS()
	assert.False(t, ok)
	assert.False(t, tok.IsEnd(2))
	assert.True(t, tok.IsEnd(letter+'z'))
	assert.True(t, tok.IsEnd(he))
	assert.Equal(t, []int32{1, he}, tok.Encode("<|im_end|>"))
	assert.Empty(t, tok.Piece(he))
}

func TestIDsThatDoNotExistHaveNoText(t *testing.T) {
	tok := small(t)
	for _, id := range []int32{-1, 288, 1 << 30, -1 << 31} {
		assert.Empty(t, tok.Piece(id))
		assert.Empty(t, tok.Text(id))
		assert.Empty(t, tok.Begin().Next(id))
	}
}

func TestFilesWithoutTypesOrIDs(t *testing.T) {
	f, err := gguf.Parse("vocab", gguftest.Llama{DropKeys: []string{
		"tokenizer.ggml.token_type", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id",
	}}.Build())
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, blank, letter + 'a', byte0 + '\n', 2}, tok.Encode("a\n</s>"))
	assert.True(t, tok.IsEnd(2))
}

func TestStreamGivesWholeCharacters(t *testing.T) {
	tok := small(t)
	var got []string
	s := tok.Begin()
	for _, id := range tok.Encode("a ä€b\xff") {
		got = append(got, s.Next(id))
	}
	got = append(got, s.Flush())
	//                     BOS ▁   a    ▁    ä        €            b    \xff
	assert.Equal(t, []string{"", "", "a", " ", "", "ä", "", "", "€", "b", "\ufffd", ""}, got)

	s = tok.Continue()
	assert.Equal(t, " ", s.Next(blank), "a continuation keeps its first space")
	assert.Empty(t, s.Next(byte0+0xe2))
	assert.Empty(t, s.Next(byte0+0x82))
	assert.Equal(t, "\ufffd\ufffd", s.Flush())
	assert.Empty(t, s.Flush())
	assert.Equal(t, "a", s.Next(letter+'a'))
}

func TestALongTextIsNoTrouble(t *testing.T) {
	tok := small(t)
	text := strings.Repeat("the he eh  ä", 50_000) + strings.Repeat("h", 100_000) + strings.Repeat("<s>", 10_000)
	assert.True(t, text == tok.Decode(tok.EncodePlain(text)))
}

func TestEncodingAllocatesNothingForACharacter(t *testing.T) {
	tok := small(t)
	text := strings.Repeat("the he eh", 1000)
	tok.EncodePlain(text)
	// The result grows by doubling, and the race detector empties pools.
	assert.Less(t, testing.AllocsPerRun(20, func() { tok.EncodePlain(text) }), 100.0)
}
