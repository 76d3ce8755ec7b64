// Package sentencepiece implements the tokenizer that GGUF files call "llama": the BPE model of
// SentencePiece (https://github.com/google/sentencepiece), which has pieces with scores and
// tokens for single bytes.
//
// In such a vocabulary a space is spelled ▁ (U+2581). The two are not distinguished: decoding
// replaces every ▁ by a space. No other package knows this.
package sentencepiece

import (
	"fmt"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// base makes the embedded vocabulary an unexported field, whose methods are promoted.
type base = vocabulary.Vocabulary

// Tokenizer is a vocabulary of pieces with scores. It is immutable, and its methods may be
// called from any goroutine.
type Tokenizer struct {
	*base
	scores      []float32        // by token
	pieces      map[string]int32 // the tokens that merging can produce, by their text
	longest     int              // the length in bytes of the longest of these texts
	bytes       [256]int32       // the token of each byte
	spacePrefix bool             // whether a text is encoded as if a space preceded it
	mergers     sync.Pool        // of *merger
}

// The keys of this kind of tokenizer alone, from the GGUF specification.
const (
	scoresKey      = "tokenizer.ggml.scores"
	spacePrefixKey = "tokenizer.ggml.add_space_prefix"
)

// New returns a file's tokenizer. It copies what it needs, so the file may be closed
// afterwards. Errors name the file and the key or token.
func New(f *gguf.File) (*Tokenizer, error) {
	v, err := vocabulary.Load(f, vocabulary.Defaults{Kind: kind, Unknown: 0, BOS: 1, EOS: 2, AddBOS: true})
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{base: v}
	if err := t.loadScores(f); err != nil {
		return nil, err
	}
	prefix, ok, err := f.Bool(spacePrefixKey)
	if err != nil {
		return nil, err
	}
	t.spacePrefix = prefix || !ok
	if err := t.index(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	t.mergers.New = func() any { return new(merger) }
	return t, nil
}

// kind returns the kind of a token in a file that has no token types.
func kind(text string) vocabulary.Kind {
	switch _, isByte := vocabulary.ParseByte(text); {
	case isByte:
		return vocabulary.Byte
	case text == "<unk>":
		return vocabulary.Unknown
	case text == "<s>" || text == "</s>":
		return vocabulary.Control
	}
	return vocabulary.Normal
}

func (t *Tokenizer) loadScores(f *gguf.File) error {
	scores, ok, err := f.Floats(scoresKey)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s: key %q is missing: pieces are merged by their scores", f.Name(), scoresKey)
	case len(scores) != t.Size():
		return fmt.Errorf("%s: %d tokens and %d scores: their numbers must be equal", f.Name(), t.Size(), len(scores))
	}
	for id, score := range scores {
		if s := float64(score); math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("%s: %w", f.Name(), t.Errorf(int32(id), "its score is %v", s))
		}
	}
	t.scores = scores
	return nil
}

// index builds the tables for encoding. It is an error if a byte has no token and there is no
// unknown token.
func (t *Tokenizer) index() (err error) {
	t.pieces = make(map[string]int32, t.Size())
	for id := range int32(t.Size()) {
		switch k, _ := t.Token(id); k.Kind {
		case vocabulary.Normal, vocabulary.Unused:
			t.pieces[k.Text] = id // of several tokens with the same text, the last one
			t.longest = max(t.longest, len(k.Text))
		}
	}
	if t.bytes, err = t.Bytes(); err != nil {
		return err
	}
	if _, ok := t.Unknown(); ok {
		return nil
	}
	for b, id := range t.bytes {
		if id == vocabulary.None {
			return fmt.Errorf("byte 0x%02X has no token, and there is no unknown token to use instead", b)
		}
	}
	return nil
}

// Least returns a lower bound of the number of a text's tokens, without encoding it: the text's
// length divided by the length of the longest token.
func (t *Tokenizer) Least(text string) int {
	const character = utf8.UTFMax // a character that is in no piece can become one unknown token
	return len(text) / max(character, t.longest, t.LongestSpecial())
}
