package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Piece returns the bytes that a token adds to a text: those of a piece, with
// spaces for ▁; the byte of a byte token, which may be a part of a character;
// nothing for control and unknown tokens, and for ids that don't exist.
func (t *Tokenizer) Piece(id int32) []byte { return t.appendPiece(nil, id) }

func (t *Tokenizer) appendPiece(b []byte, id int32) []byte {
	if !t.has(id) {
		return b
	}
	switch k := &t.tokens[id]; k.kind {
	case control, unknown:
		return b
	case byteToken:
		return append(b, k.value)
	default:
		for rest, more := k.text, true; more; {
			var word string
			word, rest, more = strings.Cut(rest, space)
			b = append(b, word...)
			if more {
				b = append(b, ' ')
			}
		}
		return b
	}
}

// Decode returns the text of tokens that are a text from its beginning, without
// the space that encoding puts before it. Bytes that aren't UTF-8 stay as they
// are.
func (t *Tokenizer) Decode(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = t.appendPiece(b, id)
	}
	// A vocabulary without ▁ spells it in bytes.
	b = bytes.ReplaceAll(b, []byte(space), []byte(" "))
	if t.spacePrefix {
		b = bytes.TrimPrefix(b, []byte(" "))
	}
	return string(b)
}

// Stream turns tokens into text as they come. It gives out whole characters
// only: bytes of a character that isn't complete are held back. What can't be
// UTF-8 becomes U+FFFD, a byte each. It belongs to one goroutine at a time.
type Stream struct {
	t     *Tokenizer
	held  []byte
	start bool // the next character begins the text
}

// Begin returns a stream for a text from its beginning. The space that encoding
// puts before a text is left out.
func (t *Tokenizer) Begin() *Stream { return &Stream{t: t, start: t.spacePrefix} }

// Continue returns a stream for what follows a prompt: a space at its beginning
// stays.
func (t *Tokenizer) Continue() *Stream { return &Stream{t: t} }

// Next returns the text that a token completes, often "".
func (s *Stream) Next(id int32) string {
	s.held = s.t.appendPiece(s.held, id)
	return s.take(false)
}

// Flush returns what was held back. The stream can go on after it.
func (s *Stream) Flush() string { return s.take(true) }

func (s *Stream) take(all bool) string {
	var out strings.Builder
	at := 0
	for at < len(s.held) && (all || utf8.FullRune(s.held[at:])) {
		r, n := utf8.DecodeRune(s.held[at:])
		at += n
		if r == '▁' {
			r = ' '
		}
		if !(s.start && r == ' ') {
			out.WriteRune(r)
		}
		s.start = false
	}
	s.held = append(s.held[:0], s.held[at:]...)
	return out.String()
}
