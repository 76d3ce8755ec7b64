package placement

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// path is a place in a document as JSONPath (RFC 9535) writes it: $.stages[0].to.
type path string

const root path = "$"

// member is the place of a key in an object.
func (p path) member(key string) path {
	for i, c := range key {
		if c != '_' && !(c|0x20 >= 'a' && c|0x20 <= 'z') && (i == 0 || c < '0' || c > '9') {
			return p + path("["+quote(key)+"]")
		}
	}
	if key == "" || len(key) > longest {
		return p + path("["+quote(key)+"]")
	}
	return p + "." + path(key)
}

// element is the place of an element in an array.
func (p path) element(i int) path { return p + path("["+strconv.Itoa(i)+"]") }

// longest is how many characters of a name errors show: a file's may be long.
const longest = 60

// quote shows a string of the file in an error, on one line.
func quote(s string) string { return fmt.Sprintf("%.*q", longest, s) }

// word shows a name in an error: as it is, where that is clear.
func word(s string) string {
	odd := func(c rune) bool { return !unicode.IsPrint(c) || c == ',' || c == '"' }
	if s == "" || len(s) > longest || !utf8.ValidString(s) || strings.ContainsFunc(s, odd) || s != strings.TrimSpace(s) {
		return quote(s)
	}
	return s
}

// printable makes a text that quotes the file fit for one line.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, s)
}
