// Package sentencepiece is the tokenizer that GGUF files call "llama": pieces
// with scores, as SentencePiece makes them, and tokens for single bytes.
//
// In such a vocabulary a space is spelled ▁ (U+2581), and the two are one
// character: text that has a ▁ comes back with a space. This package alone
// knows so.
package sentencepiece

import (
	"fmt"
	"math"
	"sync"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// base lends a Tokenizer the vocabulary's methods.
type base = vocabulary.Vocabulary

// Tokenizer is a vocabulary of pieces with scores. It doesn't change, and its
// methods may be called from any goroutine.
type Tokenizer struct {
	*base
	scores      []float32        // by token
	pieces      map[string]int32 // what merging may make, and only that
	longest     int              // bytes of the longest of them
	bytes       [256]int32       // the token of each byte
	spacePrefix bool             // a text begins as if a space stood before it
	mergers     sync.Pool        // of *merger
}

// The keys of this kind of tokenizer alone, from the GGUF specification.
const (
	scoresKey      = "tokenizer.ggml.scores"
	spacePrefixKey = "tokenizer.ggml.add_space_prefix"
)

// New reads the tokenizer of a file. It keeps nothing of the file, which may be
// closed. Errors name the file and the key or token.
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

// kind is the kind of a token in a file without token types.
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

// index builds what encoding looks texts up in.
func (t *Tokenizer) index() (err error) {
	t.pieces = make(map[string]int32, t.Size())
	for id := range int32(t.Size()) {
		switch k, _ := t.Token(id); k.Kind {
		case vocabulary.Normal, vocabulary.Unused:
			t.pieces[k.Text] = id // of two alike, the later one
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
			return fmt.Errorf("byte 0x%02X has no token, and there is no unknown token to stand for it", b)
		}
	}
	return nil
}

// Least returns a number of tokens that a text has at least, without encoding
// it: its length divided by the longest token's.
func (t *Tokenizer) Least(text string) int {
	const character = 4 // bytes: a character that no piece has is a token too
	return len(text) / max(character, t.longest, t.LongestSpecial())
}
