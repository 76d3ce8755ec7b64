package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/pipeline/generate"
)

// batchResult is a line of the output.
type batchResult struct {
	ID           json.RawMessage `json:"id"`
	Text         string          `json:"text"`
	Tokens       []int32         `json:"tokens"`
	PromptTokens int             `json:"prompt_tokens"`
	Finish       generate.Finish `json:"finish"`
	Error        string          `json:"error"`
	LogProbs     *scoresDocument `json:"logprobs"`
}

// batch runs lines through the command, from standard input to standard output.
func batch(t *testing.T, lines string, more ...string) outcome {
	t.Helper()
	args := append([]string{"batch", "-m", storiesFile, "-i", "-", "-o", "-"}, more...)
	return leatWith(t.Context(), strings.NewReader(lines), args...)
}

// results takes an output apart, and checks that it is whole lines with an id
// first.
func results(t *testing.T, out string) []batchResult {
	t.Helper()
	var all []batchResult
	for line := range strings.Lines(out) {
		assert.True(t, strings.HasPrefix(line, `{"id":`) && strings.HasSuffix(line, "}\n"), line)
		all = append(all, parsed[batchResult](t, line))
	}
	return all
}

func TestBatchIsRun(t *testing.T) {
	lines := `{"id":"a","prompt":"Once upon a time","max_tokens":5,"temperature":0}
{"id":"b","prompt":"The","max_tokens":40,"seed":7,"temperature":0.9,"top_k":0,"top_p":1,"min_p":0,"repeat_penalty":1.1}
{"id":"c","prompt":"Once upon a time","temperature":0,"stop":" named"}
{"id":"d","prompt":"Once upon a time","temperature":0,"stop":["nowhere"," girl"],"raw":true}
{"id":"e","prompt":"One day","max_tokens":1}
{"id":"f","prompt":"","max_tokens":3}
`
	o := batch(t, lines, "-n", "20", "--seed", "11", "--stop", "Lily")
	require.Equal(t, exitDone, o.status, o.err)
	assert.Regexp(t, `^6 lines, \d+ tokens in \d+\.\d s, \d+\.\d tokens/s, seed 11\n$`, o.err)
	got := results(t, o.out)
	require.Len(t, got, 6)
	first, _, _ := strings.Cut(o.out, "\n")
	assert.Equal(t, `{"id":"a","text":", there was a little","tokens":[432,383,286,261,376],"prompt_tokens":5,"finish":"length"}`, first)
	for i, flags := range [][]string{
		{"-p", opening, "-n", "5", "--temp", "0"},
		{"-p", "The", "-n", "40", "--seed", "7", "--temp", "0.9", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--repeat-penalty", "1.1", "--stop", "Lily"},
		{"-p", opening, "-n", "20", "--temp", "0", "--stop", " named"},
		{"-p", opening, "-n", "20", "--temp", "0", "--stop", "nowhere", "--stop", " girl"},
		{"-p", "One day", "-n", "1", "--seed", strconv.FormatUint(lineSeed(11, 5), 10)},
		{"-p", "", "-n", "3", "--seed", strconv.FormatUint(lineSeed(11, 6), 10)},
	} {
		want := document[runDocument](t, append([]string{"run", "-m", storiesFile, "--json"}, flags...)...)
		assert.Equal(t, string('a'+rune(i)), parsed[string](t, string(got[i].ID)), "the order is the input's")
		assert.Equal(t, want.Text, got[i].Text, flags)
		assert.Equal(t, want.Tokens, got[i].Tokens, flags)
		assert.Equal(t, want.Finish, got[i].Finish, flags)
		assert.Equal(t, want.PromptTokens, got[i].PromptTokens, flags)
	}
}

// mixed is n lines of every length, some of which fail.
func mixed(n int) string {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		switch i % 50 {
		case 7:
			fmt.Fprintf(&b, "{\"id\":%d}\n", i)
		case 23:
			fmt.Fprintln(&b)
		default:
			fmt.Fprintf(&b, "{\"id\":%d,\"prompt\":%q,\"max_tokens\":%d}\n", i, strings.Repeat("The cat. ", r.IntN(8)), 1+r.IntN(30))
		}
	}
	return b.String()
}

// The output is the same to the byte, whatever the pipeline and the window are.
func TestBatchIsReproducible(t *testing.T) {
	lines := mixed(150)
	want := batch(t, lines, "--seed", "3")
	require.Equal(t, exitFailed, want.status)
	for i, r := range results(t, want.out) {
		assert.Equal(t, i%49 == 7, r.Finish == generate.Failed, "49 of 50 lines aren't empty")
	}
	for _, more := range [][]string{
		{"--devices", "cpu/2"},
		{"--devices", "cpu/3", "--max-seqs", "5", "--inflight", "2"},
		{"--max-seqs", "1", "--max-batch", "4"},
	} {
		got := batch(t, lines, append(more, "--seed", "3")...)
		require.Equal(t, exitFailed, got.status, got.err)
		require.Equal(t, want.out, got.out, more)
	}
	assert.NotEqual(t, want.out, batch(t, lines, "--seed", "4").out)
	same := results(t, batch(t, strings.Repeat(`{"prompt":"The","max_tokens":30}`+"\n", 3), "--seed", "3").out)
	assert.NotEqual(t, same[0].Text, same[1].Text, "each line has a seed of its own")
	assert.NotEqual(t, same[1].Text, same[2].Text)
}

func TestBatchFiles(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte("\uFEFF"+`{"id":1,"prompt":"The","max_tokens":2}`+"\r\n\r\n"+`{"id":2,"prompt":"A","max_tokens":3}`))
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"batch", "-m", storiesFile, "-i", in, "-o", out, "--seed", "18446744073709551615"}
	doc := document[batchDocument](t, append(args, "--json")...)
	assert.Equal(t, batchDocument{2, 0, 0, 5, doc.Speed, 1<<64 - 1}, doc)
	assert.Positive(t, doc.Speed)
	first, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Len(t, results(t, string(first)), 2)

	// What was there is replaced where that is asked for, however long it is.
	require.NoError(t, os.WriteFile(out, bytes.Repeat([]byte("old\n"), 10000), 0o600))
	failed(t, leat(t, args...), "out.jsonl isn't empty", "--resume", "--overwrite")
	args = append(args, "--overwrite")
	o := leat(t, args...)
	assert.Equal(t, exitDone, o.status, o.err)
	assert.Empty(t, o.out)
	assert.Contains(t, o.err, "2 lines, 5 tokens in ")
	again, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again))

	// A line that fails: the object is printed all the same.
	require.NoError(t, os.WriteFile(in, []byte("{}\n{\"prompt\":\"A\",\"max_tokens\":1}\n"), 0o600))
	o = leat(t, append(args, "--json")...)
	failed(t, o, "1 of 2 lines failed", "out.jsonl")
	doc = parsed[batchDocument](t, o.out)
	assert.Equal(t, [3]int{2, 1, 1}, [3]int{doc.Lines, doc.Failed, doc.Tokens})

	require.NoError(t, os.WriteFile(in, nil, 0o600))
	assert.Equal(t, batchDocument{Seed: 5}, document[batchDocument](t, append(args, "--json", "--seed", "5")...))
	again, err = os.ReadFile(out)
	require.NoError(t, err)
	assert.Empty(t, again)
	assert.Equal(t, exitDone, leat(t, append(args[:len(args)-1], "-o", os.DevNull)...).status)
	entries, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no journal is left")
}

func TestBatchWrongUsage(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte("{}\n"))
	link := filepath.Join(filepath.Dir(in), "link")
	if os.Symlink(in, link) != nil {
		link = in
	}
	for what, args := range map[string][]string{
		"no model":            {"-i", in, "-o", "-"},
		"no input":            {"-m", storiesFile, "-o", "-"},
		"no output":           {"-m", storiesFile, "-i", in},
		"-o - and --json":     {"-m", storiesFile, "-i", in, "-o", "-", "--json"},
		"temperature of -1":   {"-m", storiesFile, "-i", in, "-o", "-", "--temp", "-1"},
		"-n 0":                {"-m", storiesFile, "-i", in, "-o", "-", "-n", "0"},
		"--placement and":     {"-m", storiesFile, "-i", in, "-o", "-", "--placement", "x", "--devices", "cpu"},
		`"x": it takes no`:    {"x", "-m", storiesFile, "-i", in, "-o", "-"},
		"and -o " + link:      {"-m", storiesFile, "-i", in, "-o", filepath.Dir(in) + "/link"},
		"and -o " + in:        {"-m", storiesFile, "-i", in, "-o", in},
		"--resume and --over": {"-m", storiesFile, "-i", in, "-o", "x", "--resume", "--overwrite"},
		"could be kept":       {"-m", storiesFile, "-i", in, "-o", "-", "--resume"},
		"lines could be kept": {"-m", storiesFile, "-i", in, "-o", os.DevNull, "--overwrite"},
	} {
		if link == in && strings.HasSuffix(args[len(args)-1], "/link") {
			continue // no links here
		}
		o := leat(t, append([]string{"batch"}, args...)...)
		assert.Equal(t, exitUsage, o.status, "%q: %s", args, o.err)
		assert.Empty(t, o.out)
		assert.Contains(t, o.err, what)
	}
	left, err := os.ReadFile(in)
	require.NoError(t, err)
	assert.Equal(t, "{}\n", string(left))

	// Nor may the model be overwritten.
	data, err := os.ReadFile(storiesFile)
	require.NoError(t, err)
	model := writeFile(t, "model.gguf", data)
	o := leat(t, "batch", "-m", model, "-i", in, "-o", model)
	assert.Equal(t, exitUsage, o.status)
	assert.Contains(t, o.err, "-m "+model+" and -o "+model)
}

func TestBatchFailures(t *testing.T) {
	folder := t.TempDir()
	in, out := writeFile(t, "in.jsonl", []byte(`{"prompt":"The"}`)), filepath.Join(folder, "out.jsonl")
	leave := func(more ...string) outcome {
		return leat(t, append([]string{"batch", "-m", storiesFile, "-i", in, "-o", out}, more...)...)
	}
	failed(t, leave("-m", in+".no"), "no such file")
	failed(t, leave("-i", in+".no"), "input", "no such file")
	failed(t, leave("-i", folder), "input", "is a folder")
	assert.NoFileExists(t, out)
	failed(t, leave("-o", filepath.Join(folder, "no", "out")), "output", "no such file")
	failed(t, leave("-o", folder), "output", "directory")

	// Nothing is made, and nothing lost, where the model doesn't load.
	failed(t, leave("--devices", "cpu:4095"), "cpu:4095")
	assert.NoFileExists(t, out)
	require.NoError(t, os.WriteFile(out, []byte("old"), 0o600))
	failed(t, leave("--devices", "cpu:4095"), "isn't empty")
	failed(t, leave("--devices", "cpu:4095", "--overwrite"), "cpu:4095")
	old, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "old", string(old))

	// The input breaks off: what came before is done.
	var stdout, stderr bytes.Buffer
	broken := io.MultiReader(strings.NewReader("{\"prompt\":\"The\",\"max_tokens\":1}\n{\"pro"), brokenReader{errors.New("cut off")})
	status := run(t.Context(), []string{"batch", "-m", storiesFile, "-i", "-", "-o", "-"}, broken, &stdout, &stderr)
	failed(t, outcome{status, "", stderr.String()}, "input after line 1", "cut off")
	assert.Len(t, results(t, stdout.String()), 1)
}

// A disk that is full ends the work, however much is left.
func TestBatchCantWrite(t *testing.T) {
	lines := strings.Repeat(`{"prompt":"The"}`+"\n", 10000)
	var stderr strings.Builder
	status := run(t.Context(), []string{"batch", "-m", storiesFile, "-i", "-", "-o", "-"}, strings.NewReader(lines), full{}, &stderr)
	failed(t, outcome{status, "", stderr.String()}, "disk is full")
	if runtime.GOOS == "linux" {
		failed(t, batch(t, lines, "-o", "/dev/full"), "/dev/full: no space left")
		o := batch(t, lines, "-o", "/dev/full", "--json")
		failed(t, o, "/dev/full")
		parsed[batchDocument](t, o.out)
	}
}

// A model whose weights make no sense fails every line, and no more.
func TestBatchFailsInside(t *testing.T) {
	nan := float32(0)
	nan /= nan
	gain := make([]float32, 64)
	for i := range gain {
		gain[i] = nan
	}
	path := writeFile(t, "nan.gguf", gguftest.Llama{Tensors: []gguftest.Tensor{
		{Name: "output_norm.weight", Dims: []uint64{64}, Data: gguftest.F32(gain...)},
	}}.Build())
	o := batch(t, "{\"id\":1,\"prompt\":\"a\"}\n\n{\"id\":2,\"prompt\":\"a\"}\n", "-m", path)
	failed(t, o, "2 of 2 lines failed")
	got := results(t, o.out)
	require.Len(t, got, 2)
	assert.Contains(t, got[1].Error, "line 3: request failed after 0 tokens")
	assert.Regexp(t, `^\{"id":1,"text":"","finish":"error","error":"line 1: .*"\}\n`, o.out)

	o = batch(t, fmt.Sprintf("{\"prompt\":%q}\n{\"prompt\":\"The\",\"max_tokens\":1}\n", strings.Repeat("Once upon a time. ", 100)))
	failed(t, o, "1 of 2 lines failed")
	assert.Contains(t, results(t, o.out)[0].Error, "line 1: input is longer than the context")
}

// Whoever writes a line and waits for its result gets it.
func TestBatchAnswersAtOnce(t *testing.T) {
	in, lines := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"batch", "-m", storiesFile, "-i", "-", "-o", "-"}, in, out, io.Discard)
		out.Close()
	}()
	d := json.NewDecoder(answers)
	for i := range 5 {
		_, err := fmt.Fprintf(lines, "{\"id\":%d,\"prompt\":\"The\",\"max_tokens\":3}\n", i)
		require.NoError(t, err)
		var r batchResult
		require.NoError(t, d.Decode(&r))
		assert.Equal(t, strconv.Itoa(i), string(r.ID))
	}
	require.NoError(t, lines.Close())
	assert.Equal(t, exitDone, <-ended)
	_, err := answers.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}

// Ctrl+C at any moment leaves whole lines, the first of those that an
// undisturbed run writes.
func TestBatchInterrupted(t *testing.T) {
	lines := mixed(400)
	args := []string{"batch", "-m", storiesFile, "--seed", "3", "--devices", "cpu/2", "-n", "20", "-i", "-", "-o"}
	want := batch(t, lines, "--seed", "3", "-n", "20").out
	seen := map[bool]int{}
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for i := range rounds {
		ctx, stop := context.WithCancel(t.Context())
		out := filepath.Join(t.TempDir(), "out.jsonl")
		at := rand.IntN(401)
		if i < 2 {
			at = 380 // more than the window: some are written
		}
		in := &lineReader{lines: strings.SplitAfter(lines, "\n"), at: at, then: stop}
		var stderr strings.Builder
		var got string
		if i%2 == 0 {
			var stdout strings.Builder
			assert.Equal(t, exitInterrupted, run(ctx, append(args, "-"), in, &stdout, &stderr))
			got = stdout.String()
		} else {
			assert.Equal(t, exitInterrupted, run(ctx, append(args, out), in, io.Discard, &stderr))
			data, err := os.ReadFile(out)
			require.NoError(t, err)
			got = string(data)
		}
		stop()
		assert.Regexp(t, `^interrupted after \d+ lines?, \d+ failed, [^\n]*, seed 3; line \d+ is next[^\n]*\n$`, stderr.String())
		if i%2 == 1 {
			assert.Contains(t, stderr.String(), "--resume")
		}
		require.True(t, strings.HasPrefix(want, got), "it is a beginning of the whole")
		assert.True(t, got == "" || strings.HasSuffix(got, "\n"))
		seen[len(got) > 0]++
	}
	assert.Positive(t, seen[true], "some get somewhere")

	// While it waits for a line, and before it loads.
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close() // ends the goroutine that reads
	go func() {
		_, _ = io.WriteString(w, `{"prompt":"The"}`) // returns when it is being read
		stop()
	}()
	assert.Equal(t, exitInterrupted, leatWith(ctx, r, append(args, "-")...).status)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	o := leatWith(ctx, strings.NewReader(lines), append(args, out)...)
	assert.Equal(t, outcome{exitInterrupted, "", ""}, o)
	assert.NoFileExists(t, out)
}

// lineReader gives a line a read, calls then before one of them, and never
// ends.
type lineReader struct {
	lines []string
	at, n int
	then  func()
}

func (r *lineReader) Read(p []byte) (int, error) {
	if r.n == r.at {
		r.then()
	}
	line := `{"prompt":"The"}` + "\n"
	if r.n < len(r.lines) {
		line = r.lines[r.n]
	}
	r.n++
	return copy(p, line), nil
}

func TestBatchTenThousand(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 1000
	}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"id\":%d,\"prompt\":\"The\",\"max_tokens\":%d}\n", i, 1+i%2)
	}
	o := batch(t, lines.String(), "--temp", "0")
	require.Equal(t, exitDone, o.status, o.err)
	assert.Contains(t, o.err, fmt.Sprintf("%d lines, %d tokens", n, n*3/2))
	got := results(t, o.out)
	require.Len(t, got, n)
	for i, r := range got {
		require.Equal(t, strconv.Itoa(i), string(r.ID))
		require.Len(t, r.Tokens, 1+i%2)
	}
}
