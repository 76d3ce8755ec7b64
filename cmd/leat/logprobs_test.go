package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

func TestRunLogProbs(t *testing.T) {
	doc := document[runDocument](t, greedy("-n", "12", "--json", "--logprobs", "3", "--temp", "0.8", "--repeat-penalty", "1.5", "--seed", "2")...)
	require.NotNil(t, doc.LogProbs)
	require.Len(t, doc.LogProbs.Content, len(doc.Tokens))

	// They are what the logits of the whole text say.
	e, err := generate.Open(t.Context(), storiesFile)
	require.NoError(t, err)
	defer e.Close()
	position, text := 0, ""
	for row, err := range e.Logits(t.Context(), append(doc.PromptIDs, doc.Tokens...)) {
		require.NoError(t, err)
		if i := position - len(doc.PromptIDs) + 1; i >= 0 && i < len(doc.Tokens) {
			c := doc.LogProbs.Content[i]
			assert.Equal(t, doc.Tokens[i], c.ID)
			assert.InDelta(t, sampling.LogProb(row, c.ID), c.LogProb, 1e-6)
			text += c.Token
			top := sampling.NewLogProbs(row).Top(nil, 3)
			require.Len(t, c.Top, 3)
			for j, want := range top {
				assert.Equal(t, want.ID, c.Top[j].ID)
				assert.InDelta(t, want.LogProb, c.Top[j].LogProb, 1e-6)
			}
		}
		position++
	}
	assert.Equal(t, doc.Text, text)

	assert.NotContains(t, done(t, greedy("--json")...), "logprobs")
	none := document[runDocument](t, greedy("-n", "1", "--json", "--logprobs", "0")...)
	require.Len(t, none.LogProbs.Content, 1)
	assert.Empty(t, none.LogProbs.Content[0].Top)
}

func TestRunLogProbsAsText(t *testing.T) {
	assert.Equal(t, `, there was

token     logprob  probability  most likely
","        -0.032        96.9%  "," 96.9%  " there" 2.9%
" there"   -0.068        93.4%  " there" 93.4%  " in" 5.1%
" was"     -0.016        98.4%  " was" 98.4%  " we" 0.8%
`, done(t, greedy("-n", "3", "--logprobs", "2")...))
	assert.Equal(t, `,

token  logprob  probability
","     -0.032        96.9%
`, done(t, greedy("-n", "1", "--logprobs", "0")...))

	// Without a token there is no table.
	o := leat(t, greedy("--logprobs", "2", "-p", strings.Repeat("Once upon a time. ", 100))...)
	failed(t, o, "longer than the context")
	assert.Empty(t, o.out)
}

func TestLogProbsInNarrowWindows(t *testing.T) {
	m, err := model.Open(storiesFile)
	require.NoError(t, err)
	defer m.Close()
	s := newScores(m.Tokenizer)
	for id := range int32(300) {
		s.add(generate.Token{ID: id, LogProb: -float64(id), Top: []generate.TokenLogProb{{ID: id, LogProb: math.Inf(-1)}, {ID: 383, LogProb: -1}, {ID: 286}}})
	}
	for _, width := range []int{20, 40, 50, 80, 200} {
		lines := s.table(width)
		for _, line := range lines {
			assert.LessOrEqual(t, ansi.StringWidth(line), width, line)
		}
		assert.Contains(t, strings.Join(lines, "\n"), `" there" 36.8%`, width)
	}
}

// Numbers that JSON doesn't have, and tokens that are parts of characters.
func TestLogProbsJSON(t *testing.T) {
	m, err := model.Open(storiesFile)
	require.NoError(t, err)
	defer m.Close()
	byteToken := int32(-1)
	for id := range int32(m.Vocab) {
		if m.Tokenizer.Text(id) == "<0xE9>" {
			byteToken = id
		}
	}
	require.Positive(t, byteToken)
	s := newScores(m.Tokenizer)
	s.add(generate.Token{ID: byteToken, LogProb: math.Inf(-1), Top: []generate.TokenLogProb{{ID: 383, LogProb: -1e-9}}})
	text, err := json.Marshal(s.document())
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf(`{"content":[{"id":%d,"token":"`+"\uFFFD"+`","bytes":[233],"logprob":-9999,"top_logprobs":[{"id":383,"token":" there","logprob":0}]}]}`, byteToken), string(text))
	assert.Contains(t, strings.Join(s.table(0), "\n"), `"\xe9"  -9999.000         0.0%  " there" 100.0%`)
	assert.Nil(t, (*scores)(nil).document())
}

func TestBatchLogProbs(t *testing.T) {
	o := batch(t, `{"id":1,"prompt":"Once upon a time","max_tokens":3}
{"id":2,"prompt":"Once upon a time","max_tokens":3,"logprobs":1.0}
{"id":3,"prompt":"Once upon a time","max_tokens":3,"logprobs":false}
{"id":4,"prompt":"Once upon a time","max_tokens":3,"logprobs":null}
`, "--temp", "0", "--logprobs", "2")
	require.Equal(t, exitDone, o.status, o.err)
	all := results(t, o.out)
	want := document[runDocument](t, greedy("-n", "3", "--json", "--logprobs", "2")...).LogProbs
	assert.Equal(t, want, all[0].LogProbs)
	assert.Equal(t, want, all[3].LogProbs)
	assert.Nil(t, all[2].LogProbs)
	require.NotNil(t, all[1].LogProbs)
	for i, c := range all[1].LogProbs.Content {
		assert.Equal(t, want.Content[i].likelihoodDocument, c.likelihoodDocument)
		assert.Equal(t, want.Content[i].Top[:1], c.Top)
	}

	for value, what := range map[string]string{
		`21`: "logprobs 21: it may be a whole number from 0 to 20, or false", `-1`: "logprobs -1: it may be", `true`: "logprobs true: it may be", `1.5`: "logprobs 1.5: it may be", `"3"`: `logprobs \"3\": it may be`,
	} {
		o := batch(t, `{"prompt":"Once","logprobs":`+value+`}`)
		assert.Equal(t, exitFailed, o.status)
		assert.Contains(t, o.out, what)
	}
	for _, command := range []string{"run", "batch"} {
		o := leat(t, command, "-m", storiesFile, "--logprobs", "21")
		assert.Equal(t, exitUsage, o.status)
		assert.Contains(t, o.err, `--logprobs "21": it may be a whole number from 0 to 20`)
	}
}

// Large results leave room for fewer lines in the window, and change nothing in the
// output.
func TestBatchOfManyLogProbs(t *testing.T) {
	r := newResumable(t, strings.Repeat(`{"prompt":"Once","max_tokens":1000000}`+"\n", 20), "--ctx", "1024", "--logprobs", "20")
	o := leat(t, append(r.args, "--seed", "3")...)
	require.Equal(t, exitDone, o.status, o.err)
	assert.True(t, r.want == r.got(t))
}
