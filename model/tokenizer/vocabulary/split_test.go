package vocabulary_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

const (
	normal  = int32(vocabulary.Normal)
	unknown = int32(vocabulary.Unknown)
	control = int32(vocabulary.Control)
	user    = int32(vocabulary.UserDefined)
)

// load is a vocabulary of tokens, each with a type.
func load(t testing.TB, tokens []string, types []int32) *vocabulary.Vocabulary {
	t.Helper()
	v, err := loadKeys(t, gguftest.KV{Key: "tokenizer.ggml.tokens", Value: tokens},
		gguftest.KV{Key: "tokenizer.ggml.token_type", Value: types})
	require.NoError(t, err)
	return v
}

func loadKeys(t testing.TB, kvs ...gguftest.KV) (*vocabulary.Vocabulary, error) {
	t.Helper()
	f, err := gguf.Parse("vocab", gguftest.Build(kvs, nil))
	require.NoError(t, err)
	return vocabulary.Load(f, vocabulary.Defaults{Unknown: vocabulary.None, BOS: vocabulary.None, EOS: vocabulary.None})
}

// show writes segments down: text as it is, special tokens as [id].
func show(segments []vocabulary.Segment) string {
	var s []string
	for _, g := range segments {
		if g.ID == vocabulary.None {
			s = append(s, g.Text)
		} else {
			s = append(s, fmt.Sprintf("[%d]", g.ID))
		}
	}
	return strings.Join(s, "·")
}

func TestControlTokensCountOnlyWhereTheyAreTrusted(t *testing.T) {
	v := load(t, []string{"<s>", "</s>", "<unk>", "\n\n", "a", "x</s>"}, []int32{control, control, unknown, user, normal, user})
	plain, trusted := vocabulary.Plain, vocabulary.WithControl
	for _, c := range []struct {
		parts []vocabulary.Part
		want  string
	}{
		{nil, ""},
		{[]vocabulary.Part{plain(""), trusted("")}, ""},
		{[]vocabulary.Part{trusted("<s>a</s>b<unk>")}, "[0]·a·[1]·b·[2]"},
		{[]vocabulary.Part{plain("<s>a</s>b<unk>")}, "<s>a</s>b<unk>"},
		{[]vocabulary.Part{trusted("<s>"), plain("<s>"), trusted("</s>")}, "[0]·<s>·[1]"},
		// Parts are joined: text reaches over them.
		{[]vocabulary.Part{trusted("<s>b"), plain("c"), plain("d"), trusted("e</s>")}, "[0]·bcde·[1]"},
		// A control token is never put together of parts of both kinds,
		{[]vocabulary.Part{trusted("<"), plain("s>")}, "<s>"},
		{[]vocabulary.Part{plain("<"), trusted("s>")}, "<s>"},
		{[]vocabulary.Part{trusted("<"), plain("s"), trusted(">")}, "<s>"},
		{[]vocabulary.Part{trusted("<"), plain(""), trusted("s>")}, "<s>"},
		{[]vocabulary.Part{plain("<"), plain("s>")}, "<s>"},
		// but a template may put it together.
		{[]vocabulary.Part{trusted("<"), trusted("s"), trusted(""), trusted(">a")}, "[0]·a"},
		// User-defined tokens are text, wherever it comes from.
		{[]vocabulary.Part{plain("b\n\nc")}, "b·[3]·c"},
		{[]vocabulary.Part{trusted("b\n"), plain("\nc")}, "b·[3]·c"},
		// One that reaches into a template can't hide its control token, though
		// it goes before it within one part.
		{[]vocabulary.Part{plain("x"), trusted("</s>")}, "x·[1]"},
		{[]vocabulary.Part{trusted("x</s>")}, "[5]"},
		{[]vocabulary.Part{plain("x</s>")}, "[5]"},
		{[]vocabulary.Part{plain("x<"), plain("/s>"), trusted("</s>")}, "[5]·[1]"},
	} {
		assert.Equal(t, c.want, show(v.Split(c.parts...)), "%q", c.parts)
	}
}

func TestTheLongestSpecialTokenComesFirst(t *testing.T) {
	v := load(t, []string{"ab", "bcd", "cde", "ab", "bcd", ""}, []int32{user, control, user, control, user, control})
	for text, want := range map[string]string{
		"abcd":    "a·[1]",     // not the leftmost
		"bcde":    "[1]·e",     // of equally long ones the lower id
		"cdebcd":  "[2]·[1]",   //
		"bcdebcd": "[1]·e·[1]", // before the other, all over the text
		"abab":    "[0]·[0]",   // of two alike the first
	} {
		assert.Equal(t, want, show(v.Split(vocabulary.WithControl(text))), text)
	}
	assert.Equal(t, "a·[4]", show(v.Split(vocabulary.Plain("abcd"))), "of two alike the one that is user-defined")
	assert.Equal(t, 3, v.LongestSpecial())
}

// split is the specification: one token after the other, the longest first, all
// over a text that is a single part.
func split(tokens []string, types []int32, text string, trusted bool) (segments []vocabulary.Segment) {
	if text == "" {
		return nil
	}
	segments = []vocabulary.Segment{{Text: text, ID: vocabulary.None}}
	for length := 200; length > 0; length-- {
		for id, token := range tokens {
			if len(token) != length || types[id] != user && (types[id] == normal || !trusted) {
				continue
			}
			var next []vocabulary.Segment
			for _, s := range segments {
				if s.ID != vocabulary.None {
					next = append(next, s)
					continue
				}
				for i, between := range strings.Split(s.Text, token) {
					if i > 0 {
						next = append(next, vocabulary.Segment{Text: token, ID: int32(id)})
					}
					if between != "" {
						next = append(next, vocabulary.Segment{Text: between, ID: vocabulary.None})
					}
				}
			}
			segments = next
		}
	}
	return segments
}

// FuzzSplit takes special tokens from parts of a text, and splits the text as
// the specification does. Given in parts, it never has a control token that isn't
// in trusted text, and lacks none that is there when it is split alone.
func FuzzSplit(f *testing.F) {
	for i, text := range []string{"", "aaaaaaaaaaaaaaaa", "abababcabab", "<s>a</s><unk>", "ä€😀\n\n\n", strings.Repeat("ab", 60), strings.Repeat("a", 150)} {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 200 {
			text = text[:200]
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		tokens, types := []string{"other"}, []int32{normal}
		for range 20 {
			at := rng.IntN(len(text) + 1)
			n := 1 + rng.IntN(6)
			if rng.IntN(8) == 0 {
				n = 60 + rng.IntN(10) // as many bytes as are compared, more or less
			}
			tokens = append(tokens, text[at:min(len(text), at+n)])
			types = append(types, 1+rng.Int32N(4))
		}
		v := load(t, tokens, types)
		require.Equal(t, split(tokens, types, text, true), v.Split(vocabulary.WithControl(text)))
		require.Equal(t, split(tokens, types, text, false), v.Split(vocabulary.Plain(text)))

		parts, trusted := cut(rng, text)
		at, found := 0, map[int]int32{} // where control tokens are
		for _, s := range v.Split(parts...) {
			require.NotEmpty(t, s.Text)
			require.Equal(t, s.Text, text[at:at+len(s.Text)])
			if s.ID != vocabulary.None && types[s.ID] != user {
				require.NotContains(t, trusted[at:at+len(s.Text)], "-")
				found[at] = s.ID
			}
			at += len(s.Text)
		}
		require.Len(t, text, at)
		at = 0
		for _, run := range strings.SplitAfter(trusted, "-") {
			whole := strings.TrimSuffix(run, "-")
			for from, s := at, split(tokens, types, text[at:at+len(whole)], true); len(s) > 0; s = s[1:] {
				if id := s[0].ID; id != vocabulary.None && types[id] != user {
					require.Equal(t, id, found[from])
					delete(found, from)
				}
				from += len(s[0].Text)
			}
			at += len(run)
		}
		require.Empty(t, found)
	})
}

// cut cuts a text into parts. trusted has a + for each byte that is in a part
// with control tokens, and a - for others.
func cut(rng *rand.Rand, text string) (parts []vocabulary.Part, trusted string) {
	for text != "" {
		n := 1 + rng.IntN(len(text))
		p := vocabulary.Part{Text: text[:n], Control: rng.IntN(2) == 0}
		if p.Control {
			trusted += strings.Repeat("+", n)
		} else {
			trusted += strings.Repeat("-", n)
		}
		parts, text = append(parts, p), text[n:]
	}
	return parts, trusted
}

// The special tokens of a large vocabulary are found in one pass, also in a text
// that might begin one everywhere.
func TestManySpecialTokensTakeLittleTime(t *testing.T) {
	var tokens []string
	var types []int32
	for i := range 100_000 {
		tokens, types = append(tokens, fmt.Sprintf("<unused%d>", i)), append(types, control)
	}
	for i := range 200 {
		tokens, types = append(tokens, strings.Repeat("\n", i+1)), append(types, user)
	}
	// As many that are all in the text, side by side.
	var numbers strings.Builder
	for i := range 50_000 {
		tokens, types = append(tokens, strconv.Itoa(100_000+i)), append(types, user)
		fmt.Fprintf(&numbers, " %d", 100_000+i)
	}
	v := load(t, tokens, types)
	began := time.Now()
	for _, c := range []struct {
		text     string
		segments int
	}{
		{strings.Repeat("once upon a time ", 60_000), 1},
		{strings.Repeat("<unused", 150_000), 1},
		{strings.Repeat("\n", 1_000_000), 5000},
		{strings.Repeat(strings.Repeat("\n", 40)+"x", 2500), 5000},
		{strings.Repeat("<unused1234>", 80_000), 80_000},
		{numbers.String(), 100_000},
	} {
		assert.Len(t, v.Split(vocabulary.WithControl(c.text)), c.segments)
	}
	// This takes a second, and some seconds under the race detector. A search for each
	// token takes minutes without it.
	assert.Less(t, time.Since(began), 15*time.Second)
}
