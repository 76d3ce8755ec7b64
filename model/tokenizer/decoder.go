package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decoder converts a stream of tokens to text. It returns complete characters only, and keeps
// the bytes of a character that is not complete yet. Each byte that is not valid UTF-8 becomes
// U+FFFD. A Decoder may be used by only one goroutine at a time.
type Decoder struct {
	t      Tokenizer
	held   []byte // bytes of the text that were not returned yet
	prefix string // is omitted if the text begins with it
}

// Begin returns a decoder for a text that begins with the first token. If the text begins with
// the tokenizer's Prefix, that is omitted.
func Begin(t Tokenizer) *Decoder { return &Decoder{t: t, prefix: t.Prefix()} }

// Continue returns a decoder for tokens that follow a prompt. It omits nothing: a space at the
// beginning is part of the text.
func Continue(t Tokenizer) *Decoder { return &Decoder{t: t} }

// Append appends the text that a token completes, which is often empty, and returns the
// extended text. The former contents of text don't matter.
func (d *Decoder) Append(text []byte, id int32) []byte {
	d.held = d.t.AppendPiece(d.held, id)
	return d.release(text, false)
}

// Flush appends what remains of incomplete characters, and returns the extended text. The
// decoder can be used further.
func (d *Decoder) Flush(text []byte) []byte { return d.release(text, true) }

// release appends the complete characters of d.held to text or, if all is true, all bytes.
func (d *Decoder) release(text []byte, all bool) []byte {
	end := len(d.held)
	if !all {
		end = whole(d.held)
	}
	at := 0
	if d.prefix != "" && end > 0 {
		begin := string(d.held[:end])
		if !all && len(begin) < len(d.prefix) && strings.HasPrefix(d.prefix, begin) {
			return text // further tokens may complete the prefix
		}
		if strings.HasPrefix(begin, d.prefix) {
			at = len(d.prefix)
		}
		d.prefix = ""
	}
	for at < end {
		r, n := utf8.DecodeRune(d.held[at:end])
		text = utf8.AppendRune(text, r)
		at += n
	}
	d.held = append(d.held[:0], d.held[end:]...)
	return text
}

// whole returns the length of b without an incomplete character at its end.
func whole(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return len(b)
			}
			return len(b) - n
		}
	}
	return len(b)
}
