package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// leaks fails the test if it leaves goroutines behind.
func leaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// aDemo is a demo on a device list that writes n tokens a story and measures for
// as short as can be.
func aDemo(t *testing.T, devices string, n int) *demo {
	t.Helper()
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	flags := pipelineFlags{devices: devices, pack: pipeline.Balanced, queue: []int{1}, maxSeqs: len(openings), kv: kernels.F16, kvMemory: -1, reserve: -1}
	e, err := generate.New(t.Context(), m, flags.options()...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	d, err := newDemo(t.Context(), e, m, &flags, generate.Request{MaxTokens: n, Sampling: generate.Sampling{Temperature: 0.8, Seed: demoSeed}})
	require.NoError(t, err)
	d.writing, d.comparison.least = 0, 0
	return d
}

func TestDemoPrintsLines(t *testing.T) {
	leaks(t)
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"demo", "-n", "8", "--devices", "cpu/3"}, strings.NewReader(""), &out, &errs), errs.String())
	assert.Empty(t, errs.String())
	text := out.String()
	lines := strings.Split(text, "\n")
	for i := range 3 {
		assert.True(t, strings.HasPrefix(lines[i], "stage "+strconv.Itoa(i)+"  cpu:"), lines[i])
	}
	assert.Contains(t, lines[0], "embedding")
	assert.Contains(t, lines[2], "output head")
	for i, opening := range openings {
		assert.Contains(t, text, "\nstory "+strconv.Itoa(i+1)+": "+opening, "each story is printed")
	}
	printed := regexp.MustCompile(`\nstory \d+: `).FindAllStringIndex(text, -1)
	summary := text[printed[len(printed)-1][0]:] // the last story, and what follows
	assert.Regexp(t, `(?m)^stage +device +layers +memory +busy$`, summary)
	assert.Regexp(t, `(?m)^2 +cpu:\d+ .*output head .*B +\d+%$`, summary)
	assert.Regexp(t, `(?m)^\d+ batches? of the first round, [\d,]+ µs from left to right`, summary)
	assert.Regexp(t, `(?m)^cpu:\d+ +·*A+[A-L·]*$`, summary)
	assert.Regexp(t, `(?m)^all at once +3 stages on cpu:\d+ → .* +[1-9][\d,]* +this pipeline$`, summary)
	assert.Regexp(t, `(?m)^one by one +3 stages on cpu:\d+ → .* +[1-9][\d,]* +all at once is \d+\.\d\d times as fast$`, summary)
	assert.Regexp(t, `(?m)^all at once +1 stage on cpu:0 +[1-9][\d,]* +the pipeline is \d+\.\d\d times as fast$`, summary)
	assert.Regexp(t, `(?m)^All \d runs wrote the very same texts, token for token: 8 stories, \d+ tokens\.\n8 users at once are served \d+\.\d\d times as fast as one user after the other\.$`, summary)
	assert.Equal(t, regexp.MustCompile(`(the pipeline|at once) is 0\.\d\d times`).MatchString(summary), strings.Contains(summary, "Why the pipeline is not ahead of "), "a comparison that is lost is explained")
}

func TestDemoPrintsJSON(t *testing.T) {
	leaks(t)
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"demo", "--json", "-n", "8", "--devices", "cpu:0,cpu:0", "--seed", "5"}, strings.NewReader(""), &out, &errs), errs.String())
	var doc struct {
		Stages []struct {
			Device, Layers string
			From, To       int
			Bytes          int64
			Busy           float64
		}
		Stories []struct {
			Prompt, Text, Finish string
			PromptTokens         int     `json:"prompt_tokens"`
			PromptIDs            []int32 `json:"prompt_token_ids"`
			Tokens               []int32
		}
		Seed       uint64
		Cores      int
		Comparison []struct {
			Devices []string
			AtOnce  int     `json:"at_once"`
			Speed   float64 `json:"tps"`
			Ratio   float64
			Rows    float64
			Samples []float64
		}
		Same *bool `json:"same_texts"`
		Why  string
	}
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&doc))
	assert.False(t, d.More(), "one object and nothing else")

	require.Len(t, doc.Stages, 2)
	assert.Equal(t, doc.Stages[0].To, doc.Stages[1].From)
	for _, s := range doc.Stages {
		assert.Equal(t, "cpu:0", s.Device)
		assert.NotEmpty(t, s.Layers)
		assert.Positive(t, s.Bytes)
		assert.Greater(t, s.Busy, 0.0)
		assert.LessOrEqual(t, s.Busy, 1.0)
	}
	require.Len(t, doc.Stories, len(openings))
	for i, s := range doc.Stories {
		assert.Equal(t, openings[i], s.Prompt)
		assert.Equal(t, int32(1), s.PromptIDs[0], "the model's beginning of text")
		assert.Len(t, s.Tokens, 8)
		assert.NotEmpty(t, s.Text)
		assert.Equal(t, "length", s.Finish)
	}
	assert.EqualValues(t, 5, doc.Seed)
	assert.Equal(t, 1, doc.Cores)
	assert.Equal(t, []string{"cpu:0", "cpu:0"}, doc.Comparison[0].Devices)
	assert.Equal(t, []string{"cpu:0", "cpu:0"}, doc.Comparison[1].Devices)
	assert.Equal(t, []string{"cpu:0"}, doc.Comparison[2].Devices)
	for i, want := range []int{8, 1, 8} {
		assert.Equal(t, want, doc.Comparison[i].AtOnce)
	}
	assert.Less(t, doc.Comparison[1].Rows, doc.Comparison[2].Rows, "one story gives a batch fewer rows than eight do")
	assert.Equal(t, 1.0, doc.Comparison[0].Ratio)
	lost := false
	for _, c := range doc.Comparison {
		assert.Positive(t, c.Speed)
		assert.NotEmpty(t, c.Samples)
		lost = lost || c.Ratio < 1
		assert.InDelta(t, doc.Comparison[0].Speed/c.Speed, c.Ratio, 0.01)
	}
	require.NotNil(t, doc.Same)
	assert.True(t, *doc.Same)
	if lost {
		assert.Contains(t, doc.Why, "its 2 stages have 1 core")
	} else {
		assert.Empty(t, doc.Why)
	}
}

func TestDemoRefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-n", "none"}, {"--temp", "-1"}, {"--devices", "cpu/0"}, {"--devices", "abacus"}, {"--svg", ""}, {"--svg", "-"}} {
		assert.Equal(t, exitUsage, run(t.Context(), append([]string{"demo"}, args...), strings.NewReader(""), io.Discard, io.Discard), args)
	}
}

// cancelling ends a context when it is written what it waits for.
type cancelling struct {
	bytes.Buffer
	at   string
	stop func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.at)) {
		c.stop()
	}
	return c.Buffer.Write(p)
}

func TestDemoEndsByInterrupt(t *testing.T) {
	leaks(t)
	for _, at := range []string{"stage 0", "story 4"} {
		ctx, stop := context.WithCancel(t.Context())
		out := &cancelling{at: at, stop: stop}
		var errs bytes.Buffer
		assert.Equal(t, exitInterrupted, run(ctx, []string{"demo", "--devices", "cpu:0,cpu:0"}, strings.NewReader(""), out, &errs))
		assert.Empty(t, errs.String())
		assert.Contains(t, out.String(), at, "what was printed stays")
		assert.NotContains(t, out.String(), "tokens/s")
	}
}

func TestDemoDevices(t *testing.T) {
	assert.Equal(t, "cpu/2", demoDevices(7, 1), "there is always a pipeline")
	assert.Equal(t, "cpu/2", demoDevices(2, 0), "a stage has an entry at least")
}

func TestStoriesAreTheSameEachTime(t *testing.T) {
	leaks(t)
	var told [][]generate.Result
	for _, devices := range []string{"cpu:0", "cpu:0,cpu:0", "cpu/7"} {
		d := aDemo(t, devices, 20)
		require.NoError(t, d.tell(t.Context(), nil))
		told = append(told, d.stories)
	}
	assert.Equal(t, told[0], told[1])
	assert.Equal(t, told[0], told[2])

	d := aDemo(t, "cpu:0", 20)
	next, err := tell(t.Context(), d.engine, roundOf(1, d.like), nil)
	require.NoError(t, err)
	assert.Error(t, sameTexts(told[0], next), "the next round tells other stories")
}

func TestStoriesFillTheModelsContext(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0", 128)
	require.NoError(t, d.tell(t.Context(), nil))
	for i, s := range d.stories {
		if s.Finish == generate.Length {
			assert.Equal(t, d.engine.Plan().Context, len(s.Prompt)+len(s.Tokens), "story %d", i+1)
		}
	}
}

func TestSameTexts(t *testing.T) {
	a := []generate.Result{{Tokens: []int32{1, 2}}, {Tokens: []int32{3, 4, 5}}}
	assert.NoError(t, sameTexts(a, a))
	for _, other := range [][]int32{{3, 9, 5}, {3}} {
		err := sameTexts(a, []generate.Result{a[0], {Tokens: other}})
		assert.EqualError(t, err, "story 2 differs from its token 2 on")
	}
}

func TestOtherTextsAreAnError(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0,cpu:0", 4)
	require.NoError(t, d.tell(t.Context(), nil))
	d.stories[6].Tokens[3]++
	err := d.compare(t.Context(), func([]standing) {})
	assert.ErrorContains(t, err, "story 7 differs from its token 4 on")
	assert.False(t, d.comparison.same())

	d.comparison.contenders[0].kind = device.CUDA // which writes what it writes
	d.stories[6].Tokens[3]--
	require.NoError(t, d.compare(t.Context(), func([]standing) {}))
	assert.False(t, d.comparison.same(), "kinds that promise nothing are not said to be the same")
}

func TestRivals(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0,cpu:0", 1)
	contenders := d.comparison.contenders
	assert.Equal(t, "2 stages on cpu:0 → cpu:0", contenders[0].where)
	assert.Equal(t, contenders[0].where, contenders[1].where)
	assert.True(t, contenders[1].oneByOne)
	assert.Equal(t, "1 stage on cpu:0", contenders[2].where)
	for _, c := range contenders[2:] {
		assert.Len(t, c.plan.Stages, 1)
	}
	alone := aDemo(t, "cpu:0", 1).comparison.contenders
	assert.Equal(t, "1 stage on cpu:0", alone[0].where)
	assert.True(t, alone[1].oneByOne)
	for _, c := range alone[2:] {
		assert.NotEqual(t, "1 stage on cpu:0", c.where, "not compared with itself")
	}
}

func TestMedianOfSamples(t *testing.T) {
	for _, c := range []struct {
		speeds []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		assert.Equal(t, c.want, (&contender{speeds: c.speeds}).speed())
	}
}

func TestBoardKeepsTheFirstRound(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0", 3)
	b := newBoard(nil)
	d.writing = 20 * time.Millisecond
	require.NoError(t, b.rounds(t.Context(), d))
	first := d.stories
	p, steps := b.read()
	assert.GreaterOrEqual(t, p.elapsed, 20*time.Millisecond)
	assert.Equal(t, p.rounds*len(openings)*3, p.tokens)
	assert.Positive(t, p.speed())
	texts := make([]string, len(openings))
	ends := 0
	for _, s := range steps {
		texts[s.story] += s.text
		if s.last {
			ends++
		}
		assert.LessOrEqual(t, s.at, p.took)
	}
	assert.Equal(t, len(openings), ends)
	for i, s := range first {
		assert.Equal(t, s.Text, texts[i])
	}
}
