package sentencepiece

import (
	"bytes"

	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// space is how the vocabulary spells a space.
const space = "▁"

var spaceBytes = []byte(space)

// Prefix returns the text that encoding puts before a text, and that decoding
// leaves out: a space, or nothing if the file says so.
func (t *Tokenizer) Prefix() string {
	if t.spacePrefix {
		return " "
	}
	return ""
}

// AppendPiece appends the bytes that a token adds to a text: those of a piece,
// with spaces for ▁; the byte of a byte token, which may be a part of a
// character; nothing for control and unknown tokens, and for ids that the
// vocabulary doesn't have.
//
// A vocabulary that has no ▁ spells it in bytes. So that it becomes a space too,
// text ends with what the tokens before have added, at least since the end of
// the last whole character.
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

// spaces replaces each ▁ that begins at from or later by a space, in place.
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
