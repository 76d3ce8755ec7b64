package gguf

import (
	"strconv"
	"unicode/utf8"
)

// Limits in bytes of text from a file, which can be of any length.
const (
	maxText  = 1 << 20 // text that is returned, longer than any chat template in use
	maxQuote = 80      // text in a message of one line
)

// Quote returns text from a file in a form for messages of one line: quoted as a Go string and
// shortened to its first 80 bytes.
func Quote(text string) string {
	if len(text) <= maxQuote {
		return strconv.Quote(text)
	}
	return strconv.Quote(head(text, maxQuote)) + "…"
}

// head returns the first most bytes of text, which must be longer, without an incomplete
// character at the end.
func head(text string, most int) string {
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
