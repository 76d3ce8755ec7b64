package gguf

import (
	"strconv"
	"unicode/utf8"
)

// Text of a file is as long as the file likes. These are the bytes of it that are
// kept or shown: beyond any real chat template, and as many as fit on a line.
const (
	maxText  = 1 << 20
	maxQuote = 80
)

// Quote returns text of a file in a form that can stand in a message of one line:
// quoted as Go quotes a string, and, of a long text, only the beginning.
func Quote(text string) string {
	if len(text) <= maxQuote {
		return strconv.Quote(text)
	}
	return strconv.Quote(head(text, maxQuote)) + "…"
}

// head returns the first most bytes of a longer text, without a part of a
// character at the end.
func head(text string, most int) string {
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
