package text_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/generate/text"
)

// spelled is a decoder for which token i completes the text at i, and after
// which rest is left.
type spelled struct {
	texts []string
	rest  string
}

func (s *spelled) Append(text []byte, id int32) []byte { return append(text, s.texts[id]...) }

func (s *spelled) Flush(text []byte) []byte {
	text = append(text, s.rest...)
	s.rest = ""
	return text
}

// write returns what is shown for each token until a stop text comes, or else
// the end.
func write(d *spelled, stops ...string) (shown []string, stopped bool) {
	w := text.NewWriter(d, stops)
	for id := range d.texts {
		part, stopped := w.Add(int32(id))
		shown = append(shown, part)
		if stopped {
			return shown, true
		}
	}
	return append(shown, w.End()), false
}

func TestStopTexts(t *testing.T) {
	for name, c := range map[string]struct {
		texts, stops, want []string
		stopped            bool
	}{
		"none":                       {[]string{"a", "b"}, nil, []string{"a", "b", ""}, false},
		"doesn't come":               {[]string{"a", "b"}, []string{"c"}, []string{"a", "b", ""}, false},
		"a token of its own":         {[]string{"a", "END", "b"}, []string{"END"}, []string{"a", ""}, true},
		"within a token":             {[]string{"aENDb"}, []string{"END"}, []string{"a"}, true},
		"split over tokens":          {[]string{"a E", "", "N", "D b"}, []string{"END"}, []string{"a ", "", "", ""}, true},
		"begins and doesn't go on":   {[]string{"a E", "N", "d"}, []string{"END"}, []string{"a ", "", "ENd", ""}, false},
		"begins twice":               {[]string{"EN", "EN", "D"}, []string{"END"}, []string{"", "EN", ""}, true},
		"begins within itself":       {[]string{"aa", "a", "b"}, []string{"aab"}, []string{"", "a", ""}, true},
		"begins at the end":          {[]string{"a", "EN"}, []string{"END"}, []string{"a", "", "EN"}, false},
		"first of two":               {[]string{"xbcab"}, []string{"ab", "bc"}, []string{"x"}, true},
		"one begins another":         {[]string{"x", "a", "b"}, []string{"abc", "ab"}, []string{"x", "", ""}, true},
		"one ends another":           {[]string{"x\n", "Us", "er:"}, []string{"User:", "\nUser:"}, []string{"x", "", ""}, true},
		"one in another, in a token": {[]string{"xabcdy"}, []string{"bc", "abcd"}, []string{"x"}, true},
		"one in another, split":      {[]string{"xab", "c", "d"}, []string{"bc", "abcd"}, []string{"x", "a"}, true},
		"overlapping":                {[]string{"ab", "ca", "bd"}, []string{"cabd", "abca"}, []string{"", ""}, true},
		"longest beginning is held":  {[]string{"xaba"}, []string{"abac", "ax"}, []string{"x", "aba"}, false},
		"twice the same":             {[]string{"a", "b"}, []string{"b", "b"}, []string{"a", ""}, true},
		"an empty one":               {[]string{"a", "b"}, []string{"", "b"}, []string{"a", ""}, true},
		"empty ones alone":           {[]string{"a", "b"}, []string{"", ""}, []string{"a", "b", ""}, false},
		"whole characters":           {[]string{"ä", "€", "😀"}, []string{"€x", "😀"}, []string{"ä", "", "€"}, true},
		"half a character":           {[]string{"aä"}, []string{"\xa4", "\xc3"}, []string{"aä", ""}, false},
		"half of one at its end":     {[]string{"aä"}, []string{"aä\xc3"}, []string{"aä", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			shown, stopped := write(&spelled{texts: c.texts}, c.stops...)
			assert.Equal(t, c.want, shown)
			assert.Equal(t, c.stopped, stopped)
		})
	}
}

func TestWhatIsLeftComesAtTheEnd(t *testing.T) {
	shown, _ := write(&spelled{texts: []string{"a", "E"}, rest: "��"}, "END")
	assert.Equal(t, []string{"a", "", "E��"}, shown)
	shown, _ = write(&spelled{texts: []string{"a", "E"}, rest: "��"}, "E�")
	assert.Equal(t, []string{"a", "", ""}, shown, "a stop text in it")
}

func TestNothingIsShownAfterAStopText(t *testing.T) {
	w := text.NewWriter(&spelled{texts: []string{"aENDb", "c"}, rest: "�"}, []string{"END"})
	shown, stopped := w.Add(0)
	assert.Equal(t, "a", shown)
	assert.True(t, stopped)
	shown, stopped = w.Add(1)
	assert.Empty(t, shown)
	assert.True(t, stopped)
	assert.Empty(t, w.End())
}

// What was shown at an end can't be claimed by a stop text that comes later.
func TestAWriterCanGoOnAfterItsEnd(t *testing.T) {
	w := text.NewWriter(&spelled{texts: []string{"E", "ND", "END"}}, []string{"END"})
	_, stopped := w.Add(0)
	assert.False(t, stopped)
	assert.Equal(t, "E", w.End())
	assert.Empty(t, w.End())
	shown, stopped := w.Add(1)
	assert.Equal(t, "ND", shown)
	assert.False(t, stopped)
	_, stopped = w.Add(2)
	assert.True(t, stopped)
}

// A run that might be a stop text all along, or of which a part always might be,
// costs no more than its length.
func TestAMillionCharactersTakeLittleTime(t *testing.T) {
	const n = 1_000_000
	var many []string
	for i := range 2000 {
		many = append(many, strings.Repeat("a", i)+"b")
	}
	for name, stops := range map[string][]string{
		"held to the end":        {strings.Repeat("a", n+1)},
		"held in a long part":    {strings.Repeat("a", n/2) + "b"},
		"held in a short part":   {"aaaaaaab"},
		"of many":                many,
		"never held":             {"b"},
		"none":                   nil,
		"begun again and again":  {strings.Repeat("ab", n/4) + "c"},
		"begun, and another one": {strings.Repeat("a", 1000) + "b", strings.Repeat("a", 500) + "c"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			w := text.NewWriter(&spelled{texts: []string{"a"}}, stops)
			shown := 0
			for range n {
				part, stopped := w.Add(0)
				require.False(t, stopped)
				shown += len(part)
			}
			assert.Equal(t, n, shown+len(w.End()))
			// About 0.1 s, and 10 s under the race detector of a busy machine; what is
			// quadratic takes an hour.
			assert.Less(t, time.Since(began), time.Minute)
		})
	}
}

func TestShowingTextAllocatesTheTextAlone(t *testing.T) {
	w := text.NewWriter(&spelled{texts: []string{"a sto", "ne"}}, []string{"stop", "ab"})
	both := func() {
		for id := range int32(2) {
			_, stopped := w.Add(id)
			if stopped {
				t.Fatal("no stop text came")
			}
		}
	}
	both()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, both), 2.0)
}

// naive is the specification of a Writer: after each token, it looks for each
// stop text in all that is held.
type naive struct {
	d       text.Decoder
	stops   []string
	held    string
	stopped bool
}

func (n *naive) add(id int32) string {
	n.held += string(n.d.Append(nil, id))
	return n.release(false)
}

func (n *naive) end() string {
	n.held += string(n.d.Flush(nil))
	return n.release(true)
}

func (n *naive) release(all bool) (text string) {
	cut := len(n.held)
	for _, s := range n.stops {
		if i := strings.Index(n.held, s); i >= 0 && i < cut {
			cut, n.stopped = i, true
		}
	}
	if !all && !n.stopped {
		cut -= n.begun()
	}
	text, n.held = n.held[:cut], n.held[cut:]
	return text
}

// begun is the length of the longest end of what is held with which a stop text
// begins.
func (n *naive) begun() (longest int) {
	for _, s := range n.stops {
		for i := range s {
			if strings.HasSuffix(n.held, s[:i]) {
				longest = max(longest, i)
			}
		}
	}
	return longest
}

// FuzzWriter: a writer shows what the specification shows, token by token.
func FuzzWriter(f *testing.F) {
	f.Add("a|EN|D", "END", "", uint8(0))
	f.Add("ab|ca|bd", "cabd|abca", "x", uint8(0))
	f.Add("aabaab|aab|aa", "aabaac|ab", "aa", uint8(7))
	f.Add("ä|€", "€x|", "�", uint8(0))
	f.Fuzz(func(t *testing.T, tokens, stops, rest string, fold uint8) {
		tokens, rest = strings.ToValidUTF8(tokens, "�"), strings.ToValidUTF8(rest, "�")
		if fold > 0 { // few letters: the stop texts come more often
			few := func(r rune) rune {
				if r == '|' {
					return r
				}
				return 'a' + max(r, 0)%rune(1+fold%3)
			}
			tokens, stops = strings.Map(few, tokens), strings.Map(few, stops)
		}
		texts, list := strings.Split(tokens, "|"), strings.Split(stops, "|")
		w := text.NewWriter(&spelled{texts: texts, rest: rest}, slices.Clone(list))
		list = slices.DeleteFunc(list, func(s string) bool { return s == "" || !utf8.ValidString(s) })
		n := &naive{d: &spelled{texts: texts, rest: rest}, stops: list}
		for id := range texts {
			shown, stopped := w.Add(int32(id))
			require.Equal(t, n.add(int32(id)), shown, "token %d", id)
			require.Equal(t, n.stopped, stopped, "token %d", id)
			if stopped {
				require.Empty(t, w.End())
				return
			}
		}
		require.Equal(t, n.end(), w.End())
	})
}

// BenchmarkWriter is the cost of a token for which nothing is held back.
func BenchmarkWriter(b *testing.B) {
	for _, stops := range []int{0, 1, 16} {
		b.Run(fmt.Sprintf("stops=%d", stops), func(b *testing.B) {
			var list []string
			for i := range stops {
				list = append(list, fmt.Sprintf("\n%c:", 'A'+i))
			}
			w := text.NewWriter(&spelled{texts: []string{" word"}}, list)
			b.ReportAllocs()
			for b.Loop() {
				w.Add(0)
			}
		})
	}
}
