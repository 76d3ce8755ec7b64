package sentencepiece_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

// FuzzEncode makes a vocabulary of random parts of a text, and encodes the text
// with it: the pieces are those of the definition, and decoding gives the text
// back, in one go or as a stream.
func FuzzEncode(f *testing.F) {
	for i, text := range []string{"", " ", "the the  theme", "<s>a</s><unk>", "ä€😀\n", "a\xff\xe2\x96", "▁a▁", "aaaaaaaaaaaaaaaa", "<0x41>"} {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 200 {
			text = text[:200] // the definition takes the cube of the length
		}
		pieces, kvs := randomPieces(text, seed)
		tok := open(t, gguftest.Build(kvs, nil))
		ids := tok.Encode(tokenizer.Plain(text))
		require.Equal(t, byDefinition(pieces, text), pieceTexts(tok, ids))

		spaced := strings.ReplaceAll(text, "▁", " ")
		require.Equal(t, spaced, tokenizer.Decode(tok, ids))
		require.Equal(t, string([]rune(spaced)), stream(t, tokenizer.Begin(tok), ids))
		require.Equal(t, string([]rune(string(joined(tok, ids)))), stream(t, tokenizer.Continue(tok), ids))

		prompt := tok.Prompt(tokenizer.WithControl(text))
		require.EqualValues(t, 1, prompt[0])
		for _, id := range prompt {
			require.NotEmpty(t, tok.Text(id))
		}
	})
}

func open(t *testing.T, data []byte) tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Parse("vocab", data)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	return tok
}

type piece struct {
	score float32
	id    int32
}

// randomPieces adds parts of the text, with scores of which some are equal, to
// the bytes.
func randomPieces(text string, seed uint64) (map[string]piece, []gguftest.KV) {
	rng := rand.New(rand.NewPCG(seed, 0))
	kvs := gguftest.Vocabulary(288)
	tokens := kvs[1].Value.([]string)[:259:259]
	escaped := []rune("▁" + strings.ToValidUTF8(strings.ReplaceAll(text, " ", "▁"), ""))
	for range 60 {
		at := rng.IntN(len(escaped))
		tokens = append(tokens, string(escaped[at:min(len(escaped), at+1+rng.IntN(4))]))
	}
	pieces := map[string]piece{}
	scores, types := make([]float32, len(tokens)), make([]int32, len(tokens))
	copy(types, kvs[3].Value.([]int32)[:259])
	for i := 259; i < len(tokens); i++ {
		types[i], scores[i] = 1, -float32(rng.IntN(20))
		pieces[tokens[i]] = piece{scores[i], int32(i)}
	}
	kvs[1].Value, kvs[2].Value, kvs[3].Value = tokens, scores, types
	return pieces, kvs
}

// byDefinition is the tokenizer's specification: while two neighbours make a
// piece, join those of the highest score, of equal ones the leftmost.
func byDefinition(pieces map[string]piece, text string) []string {
	if text == "" {
		return nil
	}
	var parts []string
	for rest := "▁" + strings.ReplaceAll(text, " ", "▁"); rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	for {
		best, score := -1, float32(0)
		for i := range len(parts) - 1 {
			if p, ok := pieces[parts[i]+parts[i+1]]; ok && (best < 0 || p.score > score) {
				best, score = i, p.score
			}
		}
		if best < 0 {
			break
		}
		parts[best] += parts[best+1]
		parts = append(parts[:best+1], parts[best+2:]...)
	}
	var texts []string
	for _, p := range parts {
		if _, ok := pieces[p]; ok {
			texts = append(texts, p)
			continue
		}
		for _, b := range []byte(p) {
			texts = append(texts, fmt.Sprintf("<0x%02X>", b))
		}
	}
	return texts
}

func pieceTexts(tok tokenizer.Tokenizer, ids []int32) (texts []string) {
	for _, id := range ids {
		texts = append(texts, tok.Text(id))
	}
	return texts
}

func joined(tok tokenizer.Tokenizer, ids []int32) (b []byte) {
	for _, id := range ids {
		b = append(b, tok.AppendPiece(nil, id)...)
	}
	return []byte(strings.ReplaceAll(string(b), "▁", " "))
}

func stream(t *testing.T, d *tokenizer.Decoder, ids []int32) string {
	var text []byte
	for _, id := range ids {
		before := len(text)
		text = d.Append(text, id)
		require.True(t, utf8.Valid(text[before:]))
	}
	return string(d.Flush(text))
}
