// Package vocabulary has what all kinds of tokenizers have in common: the tokens of a GGUF file
// with their types, the tokens with a role, and the search for special tokens in a text. It must
// not know how text between special tokens is split into tokens, or what text a token adds; that
// is for the packages that use this one, such as model/tokenizer/sentencepiece.
package vocabulary

import "slices"

// Vocabulary is the list of a file's tokens and their roles. It is immutable, and its methods may
// be called from any goroutine.
type Vocabulary struct {
	tokens   []Token
	specials specials

	unknown, bos, eos int32   // None if the file has none
	ends              []int32 // in ascending order
	addBOS            bool
}

// Token is one entry of a vocabulary.
type Token struct {
	Text string // the text in the file
	Kind Kind
	Byte byte // the byte of a token of kind Byte
}

// Kind is a token's type. The values are those of GGUF files.
type Kind int32

// The kinds of tokens.
const (
	Normal      Kind = 1 // a piece of text
	Unknown     Kind = 2 // replaces text that has no tokens
	Control     Kind = 3 // a token with a meaning and no text, such as <s>
	UserDefined Kind = 4 // a text that is never split
	Unused      Kind = 5 // treated like Normal
	Byte        Kind = 6 // a single byte, written like <0x41>
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

// Text returns a token's text in the file, such as "▁the", "<s>" or "<0x0A>". It returns "" if
// the vocabulary has no such id.
func (v *Vocabulary) Text(id int32) string {
	t, _ := v.Token(id)
	return t.Text
}

// BOS returns the token that begins a text. ok is false if there is none.
func (v *Vocabulary) BOS() (id int32, ok bool) { return v.bos, v.bos != None }

// EOS returns the token that ends a text. ok is false if there is none.
func (v *Vocabulary) EOS() (id int32, ok bool) { return v.eos, v.eos != None }

// Unknown returns the token that replaces text that has no tokens. ok is false if there is none.
func (v *Vocabulary) Unknown() (id int32, ok bool) { return v.unknown, v.unknown != None }

// IsEnd reports whether a model that generates this token has finished. A vocabulary may have
// several such tokens: EOS, and those that end a turn or a message.
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

// OneBOS removes the BOS that AppendBOS has put before a prompt's tokens if these begin with a
// BOS themselves.
func (v *Vocabulary) OneBOS(ids []int32) []int32 {
	if v.addBOS && len(ids) > 1 && ids[0] == v.bos && ids[1] == v.bos {
		return ids[1:]
	}
	return ids
}

// LongestSpecial returns the length in bytes of the longest special token's text, or 0 if there
// is none.
func (v *Vocabulary) LongestSpecial() int {
	if len(v.specials.ranked) == 0 {
		return 0
	}
	return len(v.tokens[v.specials.ranked[0]].Text)
}

func (v *Vocabulary) has(id int32) bool { return id >= 0 && int(id) < len(v.tokens) }
