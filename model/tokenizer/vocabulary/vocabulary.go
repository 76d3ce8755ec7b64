// Package vocabulary holds what every kind of tokenizer has in common: the
// tokens of a GGUF file with their types, the tokens that have a role, and the
// search for special tokens in a text. How text between special tokens is cut
// into tokens, and how a token spells text, is for the packages that use this
// one, such as model/tokenizer/sentencepiece.
package vocabulary

import "slices"

// Vocabulary is the list of a file's tokens and their roles. It doesn't change
// after Load, and its methods may be called from any goroutine.
type Vocabulary struct {
	tokens   []Token
	specials specials

	unknown, bos, eos int32   // None where the file has none
	ends              []int32 // in ascending order
	addBOS            bool
}

// Token is one entry of a vocabulary.
type Token struct {
	Text string // as the file spells it
	Kind Kind
	Byte byte // the byte that a token of kind Byte stands for
}

// Kind is a token's type. The values are those of GGUF files.
type Kind int32

// The kinds of tokens.
const (
	Normal      Kind = 1 // a piece of text
	Unknown     Kind = 2 // stands for text that the vocabulary can't spell
	Control     Kind = 3 // such as <s>: it has a meaning and no text
	UserDefined Kind = 4 // a text that is never split, and has no meaning besides
	Unused      Kind = 5 // treated as Normal
	Byte        Kind = 6 // one byte, written like <0x41>
)

// None is the id of a token that a vocabulary doesn't have.
const None int32 = -1

// Size returns the number of tokens. Their ids are 0 to Size-1.
func (v *Vocabulary) Size() int { return len(v.tokens) }

// Token returns a token. ok is false if the vocabulary has no such id.
func (v *Vocabulary) Token(id int32) (t Token, ok bool) {
	if !v.has(id) {
		return Token{}, false
	}
	return v.tokens[id], true
}

// Text returns a token as the file spells it, such as "▁the", "<s>" or
// "<0x0A>". It returns "" if the vocabulary has no such id.
func (v *Vocabulary) Text(id int32) string {
	t, _ := v.Token(id)
	return t.Text
}

// BOS returns the token that begins a text. ok is false if there is none.
func (v *Vocabulary) BOS() (id int32, ok bool) { return v.bos, v.bos != None }

// EOS returns the token that ends a text. ok is false if there is none.
func (v *Vocabulary) EOS() (id int32, ok bool) { return v.eos, v.eos != None }

// Unknown returns the token that stands for what the vocabulary can't spell. ok
// is false if there is none.
func (v *Vocabulary) Unknown() (id int32, ok bool) { return v.unknown, v.unknown != None }

// IsEnd reports whether a model that makes this token has finished. A
// vocabulary may have several such tokens: the one that ends a text (EOS), and
// those that end a turn or a message.
func (v *Vocabulary) IsEnd(id int32) bool {
	_, found := slices.BinarySearch(v.ends, id)
	return found
}

// AppendBOS appends BOS to ids if the file asks for it before a prompt.
func (v *Vocabulary) AppendBOS(ids []int32) []int32 {
	if v.addBOS && v.bos != None {
		ids = append(ids, v.bos)
	}
	return ids
}

// OneBOS takes back the BOS that AppendBOS has put before a prompt's tokens, if
// these begin with one themselves.
func (v *Vocabulary) OneBOS(ids []int32) []int32 {
	if v.addBOS && len(ids) > 1 && ids[0] == v.bos && ids[1] == v.bos {
		return ids[1:]
	}
	return ids
}

// LongestSpecial returns the length in bytes of the longest special token, 0 if
// there is none.
func (v *Vocabulary) LongestSpecial() int {
	if len(v.specials.ranked) == 0 {
		return 0
	}
	return len(v.tokens[v.specials.ranked[0]].Text)
}

func (v *Vocabulary) has(id int32) bool { return id >= 0 && int(id) < len(v.tokens) }
