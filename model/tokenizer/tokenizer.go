// Package tokenizer turns text into tokens and back, by the vocabulary that a
// GGUF file holds. It knows the kind that such files call "llama": a
// SentencePiece vocabulary of pieces with scores.
//
// In that vocabulary a space is written ▁ (U+2581), and the two are one
// character: text that has a ▁ comes back with a space.
package tokenizer

import (
	"slices"
	"sync"
)

// Tokenizer is a vocabulary and its rules. It doesn't change, and its methods
// may be called from any goroutine.
type Tokenizer struct {
	tokens []token

	pieces  map[string]int32 // what merging may make, and only that
	longest int              // bytes of the longest of them
	bytes   [256]int32       // the token of each byte, none where there is none
	special []int32          // tokens that are read whole in a text, longest first

	bos, eos, unk int32 // none where there is none
	ends          []int32
	addBOS        bool
	addEOS        bool
	spacePrefix   bool // a text begins as if a space stood before it

	mergers sync.Pool // of *merger
}

type token struct {
	text  string
	score float32
	kind  kind
	value byte // of a byte token
}

// kind is a token's type, in the file's own numbers.
type kind int32

const (
	normal      kind = 1
	unknown     kind = 2 // stands for text that the vocabulary can't spell
	control     kind = 3 // <s>, </s>: has a meaning and no text
	userDefined kind = 4 // is never split, and never made by merging
	unused      kind = 5 // as normal
	byteToken   kind = 6 // <0x41>: one byte
)

const none int32 = -1

// Size returns how many tokens there are: ids go from 0 to Size-1.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// BOS returns the token that begins a text, ok false where there is none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos != none }

// EOS returns the token that ends a text, ok false where there is none.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos != none }

// IsEnd says whether a model that makes this token has finished: EOS, or a
// token that ends a turn.
func (t *Tokenizer) IsEnd(id int32) bool { return slices.Contains(t.ends, id) }

// Text returns a token as the vocabulary spells it, such as "▁the", "<s>" or
// "<0x0A>"; "" where there is no such token.
func (t *Tokenizer) Text(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.tokens[id].text
}

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.tokens) }

// Least returns a number of tokens that text has at least, without encoding it:
// its length divided by the longest token's.
func (t *Tokenizer) Least(text string) int {
	longest := max(t.longest, 4) // a character that no piece has is a token too
	if len(t.special) > 0 {
		longest = max(longest, len(t.tokens[t.special[0]].text))
	}
	return len(text) / longest
}
