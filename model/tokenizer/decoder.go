package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decoder turns tokens into text as they come. It gives out whole characters
// only: bytes of a character that isn't complete are held back. What can't be
// UTF-8 becomes U+FFFD, one for each byte. It belongs to one goroutine at a time.
type Decoder struct {
	t      Tokenizer
	held   []byte
	prefix string // is left out if the text begins with it
}

// Begin returns a decoder for a text from its beginning. The tokenizer's Prefix
// is left out.
func Begin(t Tokenizer) *Decoder { return &Decoder{t: t, prefix: t.Prefix()} }

// Continue returns a decoder for what follows a prompt: all of it is text, a
// space at its beginning included.
func Continue(t Tokenizer) *Decoder { return &Decoder{t: t} }

// Append appends the text that a token completes, often none, and returns the
// extended text. It doesn't look at what is there.
func (d *Decoder) Append(text []byte, id int32) []byte {
	d.held = d.t.AppendPiece(d.held, id)
	return d.release(text, false)
}

// Flush appends what was held back, and returns the extended text. The decoder
// can go on after it.
func (d *Decoder) Flush(text []byte) []byte { return d.release(text, true) }

// release gives out the whole characters that are held, or all.
func (d *Decoder) release(text []byte, all bool) []byte {
	end := len(d.held)
	if !all {
		end = whole(d.held)
	}
	at := 0
	if d.prefix != "" && end > 0 {
		begin := string(d.held[:end])
		if !all && len(begin) < len(d.prefix) && strings.HasPrefix(d.prefix, begin) {
			return text // it may yet become the prefix
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

// whole returns how many of the bytes are not the beginning of a character that
// is cut off at the end.
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
