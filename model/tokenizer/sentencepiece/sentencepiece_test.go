package sentencepiece_test

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

const shared = "../../../../shared/"

func openShared(t testing.TB, name string) tokenizer.Tokenizer {
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
		assert.Equalf(t, ids, tok.Encode(tokenizer.Plain(texts[i])), "%q", texts[i])
		assert.Equal(t, texts[i], tokenizer.Decode(tok, ids))
	}
}

func TestStories(t *testing.T) {
	tok := openShared(t, "models/stories260K.gguf")
	assert.Equal(t, 512, tok.Size())
	ids := tok.Prompt(tokenizer.WithControl("Once upon a time"))
	assert.Equal(t, []int32{1, 403, 407, 261, 378}, ids)
	assert.Equal(t, "Once upon a time", tokenizer.Decode(tok, ids))
	assert.Equal(t, "▁a", tok.Text(261))
	assert.Equal(t, " a", string(tok.AppendPiece(nil, 261)))
}

// small is a vocabulary of 288 tokens with the keys given in place of its own,
// or besides.
func small(t testing.TB, kvs ...gguftest.KV) tokenizer.Tokenizer {
	t.Helper()
	tok, err := parse(t, kvs...)
	require.NoError(t, err)
	return tok
}

func parse(t testing.TB, kvs ...gguftest.KV) (tokenizer.Tokenizer, error) {
	t.Helper()
	f, err := gguf.Parse("vocab", gguftest.Llama{Vocab: 288, KVs: kvs}.Build())
	require.NoError(t, err)
	return tokenizer.New(f)
}

// ownTokens replaces the tokens by some of one's own, with types; the scores
// fall from the first on.
func ownTokens(tokens []string, types []int32) []gguftest.KV {
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
	assert.Equal(t, []int32{blankT, he}, tok.Encode(tokenizer.Plain("the")))
	assert.Equal(t, []int32{blank, he, letter + 'e'}, tok.Encode(tokenizer.Plain("hee")))

	// "ab" and "bc" of equal score: the leftmost pair wins, whatever the order
	// in the vocabulary.
	tok = small(t, gguftest.KV{Key: "tokenizer.ggml.tokens", Value: []string{"<unk>", "a", "b", "c", "bc", "ab", "▁"}},
		gguftest.KV{Key: "tokenizer.ggml.scores", Value: []float32{0, 0, 0, 0, -1, -1, 0}},
		gguftest.KV{Key: "tokenizer.ggml.token_type", Value: []int32{2, 1, 1, 1, 1, 1, 1}},
		gguftest.KV{Key: "tokenizer.ggml.bos_token_id", Value: uint32(0xffffffff)},
		gguftest.KV{Key: "tokenizer.ggml.eos_token_id", Value: uint32(0xffffffff)})
	assert.Equal(t, []int32{6, 5, 3}, tok.Encode(tokenizer.Plain("abc")))
}

func TestBytesStandForWhatHasNoPiece(t *testing.T) {
	tok := small(t)
	assert.Equal(t, []int32{blank, byte0 + 0xc3, byte0 + 0xa4, letter + 'a', byte0 + '\n'}, tok.Encode(tokenizer.Plain("äa\n")))
	assert.Equal(t, "äa\n", tokenizer.Decode(tok, tok.Encode(tokenizer.Plain("äa\n"))))
	assert.Equal(t, []byte{0xc3}, tok.AppendPiece(nil, byte0+0xc3))
	broken := "a\xff\xe2\x96 b\xe2"
	assert.Equal(t, broken, tokenizer.Decode(tok, tok.Encode(tokenizer.Plain(broken))))
}

func TestWithoutBytesAnUnknownTokenStandsForACharacter(t *testing.T) {
	tok := small(t, ownTokens([]string{"<unk>", "<s>", "</s>", "▁", "a", "<0xC3>"}, []int32{2, 3, 3, 1, 1, 6})...)
	assert.Equal(t, []int32{3, 4, 0, 0, 4}, tok.Encode(tokenizer.Plain("aäöa")))
	assert.Equal(t, "aa", tokenizer.Decode(tok, tok.Encode(tokenizer.Plain("aäöa"))))
}

func TestBOSIsAddedAsTheFileAsksAndEOSNever(t *testing.T) {
	add := func(bos, eos bool) []gguftest.KV {
		return []gguftest.KV{{Key: "tokenizer.ggml.add_bos_token", Value: bos}, {Key: "tokenizer.ggml.add_eos_token", Value: eos}}
	}
	for _, c := range []struct {
		kvs  []gguftest.KV
		want []int32
	}{
		{nil, []int32{1, blank, letter + 'a'}},
		{add(true, true), []int32{1, blank, letter + 'a'}},
		{add(false, true), []int32{blank, letter + 'a'}},
		{add(false, false), []int32{blank, letter + 'a'}},
	} {
		assert.Equal(t, c.want, small(t, c.kvs...).Prompt(tokenizer.WithControl("a")))
	}
	assert.Equal(t, []int32{1}, small(t).Prompt(tokenizer.WithControl("")))
	assert.Empty(t, small(t).Encode(tokenizer.Plain("")))
}

// A prompt from a chat template, or from a file that was made for another program,
// often begins with BOS.
func TestAPromptHasOneBOS(t *testing.T) {
	tok := small(t)
	once := []int32{1, blank, letter + 'a'}
	assert.Equal(t, once, tok.Prompt(tokenizer.WithControl("a")))
	assert.Equal(t, once, tok.Prompt(tokenizer.WithControl("<s>a")))
	assert.Equal(t, once, tok.Prompt(tokenizer.WithControl("<s>"), tokenizer.Plain("a")))
	assert.Equal(t, []int32{1, 1}, tok.Prompt(tokenizer.WithControl("<s><s>")), "who writes two has two")
	assert.Equal(t, []int32{1, blank, letter + 'a', 1}, tok.Prompt(tokenizer.WithControl("a<s>")))
	assert.Equal(t, []int32{1, blank}, tok.Prompt(tokenizer.Plain("<s>"))[:2], "this is text")

	without := small(t, gguftest.KV{Key: "tokenizer.ggml.add_bos_token", Value: false})
	assert.Equal(t, []int32{1, 1, blank, letter + 'a'}, without.Prompt(tokenizer.WithControl("<s><s>a")))
}

func TestControlTokensAreReadInAPromptOnly(t *testing.T) {
	tok := small(t)
	assert.Equal(t, []int32{1, blank, letter + 'a', 2, blank, letter + 'b', 0}, tok.Prompt(tokenizer.WithControl("<s>a</s>b<unk>")))
	plain := tok.Encode(tokenizer.Plain("<s>a</s>"))
	assert.NotContains(t, plain, int32(1))
	assert.NotContains(t, plain, int32(2))
	assert.Equal(t, "<s>a</s>", tokenizer.Decode(tok, plain))
	assert.Empty(t, tok.AppendPiece(nil, 1))
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
	assert.Equal(t, want, tok.Encode(tokenizer.Plain("aqxqb")))
	assert.Equal(t, append([]int32{1}, want...), tok.Prompt(tokenizer.WithControl("aqxqb")))
	assert.Equal(t, "qx", string(tok.AppendPiece(nil, he)))
}

func TestTheSpacePrefixCanBeOff(t *testing.T) {
	tok := small(t, gguftest.KV{Key: "tokenizer.ggml.add_space_prefix", Value: false})
	assert.Equal(t, []int32{letter + 'a'}, tok.Encode(tokenizer.Plain("a")))
	assert.Equal(t, []int32{blank, letter + 'a'}, tok.Encode(tokenizer.Plain(" a")))
	assert.Equal(t, " a", tokenizer.Decode(tok, []int32{blank, letter + 'a'}))
	assert.Equal(t, " ", string(tokenizer.Begin(tok).Append(nil, blank)))
}

func TestASpaceWithoutAPieceIsSpelledInBytes(t *testing.T) {
	kvs := gguftest.Vocabulary(288)
	kvs[1].Value.([]string)[blank] = "other"
	tok := small(t, kvs...)
	ids := tok.Encode(tokenizer.Plain("a b"))
	assert.Equal(t, []int32{byte0 + 0xe2, byte0 + 0x96, byte0 + 0x81, letter + 'a'}, ids[:4])
	assert.Equal(t, "a b", tokenizer.Decode(tok, ids))
	d, text := tokenizer.Begin(tok), []byte(nil)
	for i, want := range []string{"", "", "", "a", "a", "a", "a ", "a b"} {
		text = d.Append(text, ids[i])
		assert.Equal(t, want, string(text))
	}
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
	assert.Equal(t, []int32{1, he}, tok.Prompt(tokenizer.WithControl("<|im_end|>")))
	assert.Empty(t, tok.AppendPiece(nil, he))
}

func TestIDsThatDoNotExistHaveNoText(t *testing.T) {
	tok := small(t)
	for _, id := range []int32{-1, 288, 1 << 30, -1 << 31} {
		assert.Empty(t, tok.AppendPiece(nil, id))
		assert.Empty(t, tok.Text(id))
		assert.Empty(t, tokenizer.Begin(tok).Append(nil, id))
	}
}

func TestFilesWithoutTypesOrIDs(t *testing.T) {
	f, err := gguf.Parse("vocab", gguftest.Llama{DropKeys: []string{
		"tokenizer.ggml.token_type", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id",
	}}.Build())
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, blank, letter + 'a', byte0 + '\n', 2}, tok.Prompt(tokenizer.WithControl("a\n</s>")))
	assert.True(t, tok.IsEnd(2))
}

func TestADecoderGivesWholeCharacters(t *testing.T) {
	tok := small(t)
	var got []string
	d := tokenizer.Begin(tok)
	for _, id := range tok.Prompt(tokenizer.WithControl("a ä€b\xff")) {
		got = append(got, string(d.Append(nil, id)))
	}
	got = append(got, string(d.Flush(nil)))
	//                     BOS ▁   a    ▁    ä        €            b    \xff
	assert.Equal(t, []string{"", "", "a", " ", "", "ä", "", "", "€", "b", "\ufffd", ""}, got)

	d = tokenizer.Continue(tok)
	assert.Equal(t, " ", string(d.Append(nil, blank)), "a continuation keeps its first space")
	assert.Empty(t, d.Append(nil, byte0+0xe2))
	assert.Empty(t, d.Append(nil, byte0+0x82))
	assert.Equal(t, "\ufffd\ufffd", string(d.Flush(nil)))
	assert.Empty(t, d.Flush(nil))
	assert.Equal(t, "a", string(d.Append(nil, letter+'a')))
}

func TestALongTextIsNoTrouble(t *testing.T) {
	tok := small(t)
	text := strings.Repeat("the he eh  ä", 50_000) + strings.Repeat("h", 100_000) + strings.Repeat("<s>", 10_000)
	assert.True(t, text == tokenizer.Decode(tok, tok.Encode(tokenizer.Plain(text))))
}

func TestEncodingAllocatesNothingForACharacter(t *testing.T) {
	tok := small(t)
	text := strings.Repeat("the he eh", 1000)
	tok.Encode(tokenizer.Plain(text))
	// The result grows by doubling, and the race detector empties pools.
	assert.Less(t, testing.AllocsPerRun(20, func() { tok.Encode(tokenizer.Plain(text)) }), 100.0)
}
