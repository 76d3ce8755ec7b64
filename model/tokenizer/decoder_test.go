package tokenizer_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/model/tokenizer"
)

// speller spells token i as its text i, and does nothing else.
type speller struct {
	tokenizer.Tokenizer
	texts  []string
	prefix string
}

func (s speller) AppendPiece(b []byte, id int32) []byte { return append(b, s.texts[id]...) }
func (s speller) Prefix() string                        { return s.prefix }

// decode returns what a decoder gives out for each token, and at the end.
func decode(t testing.TB, d *tokenizer.Decoder, n int) (texts []string) {
	for id := range int32(n) {
		text := d.Append([]byte("x\xff"), id)[2:] // what is there is left alone
		require.True(t, utf8.Valid(text))
		texts = append(texts, string(text))
	}
	return append(texts, string(d.Flush(nil)))
}

func TestADecoderHoldsBackACharacterUntilItIsWhole(t *testing.T) {
	for _, c := range []struct{ texts, want []string }{
		{[]string{"a", "", "b"}, []string{"a", "", "b", ""}},
		{[]string{"a\xf0\x9f", "\x98", "\x80b"}, []string{"a", "", "😀b", ""}},
		{[]string{"\xf0\x9f\x98"}, []string{"", "���"}},
		{[]string{"\xf0\x9f", "a"}, []string{"", "��a", ""}},
		{[]string{"\x80\x80\x80\x80\xe2"}, []string{"����", "�"}},
		{[]string{"\xe2", "\xe2", "\x82", "\xac"}, []string{"", "�", "", "€", ""}},
		{[]string{"\xed\xa0", "\x80"}, []string{"��", "�", ""}}, // a surrogate
		{[]string{"▁", " "}, []string{"▁", " ", ""}},            // is no rule of a decoder's
	} {
		assert.Equal(t, c.want, decode(t, tokenizer.Continue(speller{texts: c.texts}), len(c.texts)), "%q", c.texts)
	}
}

func TestADecoderLeavesThePrefixOut(t *testing.T) {
	for _, c := range []struct {
		prefix      string
		texts, want []string
	}{
		{" ", []string{" ", " a"}, []string{"", " a", ""}},
		{" ", []string{"", " a"}, []string{"", "a", ""}},
		{" ", []string{"a", " b"}, []string{"a", " b", ""}},
		{"ä", []string{"\xc3", "\xa4b"}, []string{"", "b", ""}},
		{"ä", []string{"\xc3"}, []string{"", "�"}},
		{"abc", []string{"a", "bc", "abc"}, []string{"", "", "abc", ""}},
		{"abc", []string{"a", "bd", "abc"}, []string{"", "abd", "abc", ""}},
		{"abc", []string{"a", "b"}, []string{"", "", "ab"}},
	} {
		s := speller{texts: c.texts, prefix: c.prefix}
		assert.Equal(t, c.want, decode(t, tokenizer.Begin(s), len(c.texts)), "%q", c)
		got := strings.Join(decode(t, tokenizer.Continue(s), len(c.texts)), "")
		assert.Equal(t, string([]rune(strings.Join(c.texts, ""))), got)
		if all := strings.Join(c.texts, ""); utf8.ValidString(all) {
			assert.Equal(t, strings.Join(c.want, ""), tokenizer.Decode(s, []int32{0, 1, 2}[:len(c.texts)]))
		}
	}
}

func TestDecodingAllocatesNothingForAToken(t *testing.T) {
	d := tokenizer.Continue(speller{texts: []string{"a ä", "\xe2", "\x82\xac"}})
	text := make([]byte, 0, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		text = text[:0]
		for id := range int32(3) {
			text = d.Append(text, id)
		}
	}))
	assert.Equal(t, "a ä€", string(text))
}
