package sentencepiece

import (
	"bytes"

	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// space is the character with which the vocabulary spells a space.
const space = "▁"

var spaceBytes = []byte(space)

// Prefix returns the text that encoding inserts before a text and that decoding omits: a space,
// or "" if the file says so.
func (t *Tokenizer) Prefix() string {
	if t.spacePrefix {
		return " "
	}
	return ""
}

// AppendPiece appends the bytes that a token adds to a text, and returns the extended text. For
// a piece, these are its bytes, with a space for each ▁; for a byte token, that byte, which may
// be part of a character; for control and unknown tokens, and ids that the vocabulary doesn't
// have, nothing.
//
// A vocabulary without a piece for ▁ spells it with byte tokens, and AppendPiece replaces it by
// a space when it is complete. Therefore text must end with the bytes that the tokens before
// have added, at least from the end of the last complete character on.
func (t *Tokenizer) AppendPiece(text []byte, id int32) []byte {
	k, ok := t.Token(id)
	if !ok {
		return text
	}
	from := max(0, len(text)-(len(space)-1))
	switch k.Kind {
	case vocabulary.Control, vocabulary.Unknown:
		return text
	case vocabulary.Byte:
		text = append(text, k.Byte)
	default:
		text = append(text, k.Text...)
	}
	return spaces(text, from)
}

// spaces replaces, in place, each ▁ that begins at index from or later by a space.
func spaces(text []byte, from int) []byte {
	rest := text[from:]
	at := bytes.Index(rest, spaceBytes)
	if at < 0 {
		return text
	}
	text = text[:from]
	for ; at >= 0; at = bytes.Index(rest, spaceBytes) {
		text = append(text, rest[:at]...)
		text = append(text, ' ')
		rest = rest[at+len(space):]
	}
	return append(text, rest...)
}
