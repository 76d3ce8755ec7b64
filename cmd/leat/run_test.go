package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
)

const opening = "Once upon a time"

func greedy(args ...string) []string {
	return append([]string{"run", "-m", storiesFile, "-p", opening, "--temp", "0"}, args...)
}

func TestRunStreams(t *testing.T) {
	var w pieces
	var stderr strings.Builder
	status := run(t.Context(), greedy("-n", "64"), strings.NewReader(""), &w, &stderr)
	require.Equal(t, exitDone, status, stderr.String())
	assert.Empty(t, stderr.String())
	text := strings.Join(w, "")
	assert.True(t, strings.HasPrefix(text, ", there was a little girl named Lily"), text)
	assert.True(t, strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "\n\n"), text)
	assert.Greater(t, len(w), 60, "a write a token")
}

// pieces keeps every write by itself.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

func TestRunJSON(t *testing.T) {
	doc := document[runDocument](t, greedy("-n", "64", "--json", "--seed", "7")...)
	assert.Equal(t, []int32{1, 403, 407, 261, 378}, doc.PromptIDs)
	assert.Equal(t, 5, doc.PromptTokens)
	assert.Len(t, doc.Tokens, 64)
	assert.Equal(t, generate.Length, doc.Finish)
	assert.Equal(t, uint64(7), doc.Seed)
	assert.Equal(t, doc.Text, strings.TrimSuffix(done(t, greedy("-n", "64")...), "\n"))
	require.Len(t, doc.Stages, 1)
	s := doc.Stages[0]
	assert.Regexp(t, `^cpu:\d`, s.Device)
	assert.Equal(t, [2]int{0, 7}, [2]int{s.From, s.To})
	assert.Equal(t, "embedding, blocks 0-4, output head", s.Layers)
	assert.Greater(t, s.Bytes, int64(1<<20))
	assert.Greater(t, s.Busy, 0.0)
	assert.LessOrEqual(t, s.Busy, 1.0)
	assert.Greater(t, doc.Timing.Load, 0.0)
	assert.Greater(t, doc.Timing.Prefill, 0.0)

	// Any number of stages, batches and depths: the same text.
	for _, more := range [][]string{
		{"--devices", "cpu/3"},
		{"--devices", "cpu/2", "--inflight", "3", "--queue", "0,2"},
		{"--max-batch", "2", "--pack", "first-fit", "--max-seqs", "4"},
		{"--threads", "1", "--kv-memory", "1MiB", "--reserve", "1MiB", "--ctx", "100"},
	} {
		again := document[runDocument](t, append(greedy("-n", "64", "--json"), more...)...)
		assert.Equal(t, doc.Tokens, again.Tokens, more)
	}
}

func TestRunIsTheReference(t *testing.T) {
	data, err := os.ReadFile(shared(t, "reference/manifest.json"))
	require.NoError(t, err)
	var rows []struct {
		Model          string
		Tokens, Greedy []int32
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	for _, row := range rows {
		if row.Model == "stories260K.gguf" {
			doc := document[runDocument](t, greedy("-n", "64", "--json")...)
			assert.Equal(t, row.Tokens, doc.PromptIDs)
			assert.Equal(t, row.Greedy, doc.Tokens)
			return
		}
	}
	t.Fatal("the manifest has no row of stories260K.gguf")
}

func TestRunSeed(t *testing.T) {
	sample := func(more ...string) runDocument {
		args := append([]string{"run", "-m", storiesFile, "-p", "The", "-n", "48", "--json"}, more...)
		return document[runDocument](t, args...)
	}
	a, b := sample(), sample()
	assert.NotEqual(t, a.Seed, b.Seed)
	assert.NotEqual(t, a.Tokens, b.Tokens)
	again := sample("--seed", strconv.FormatUint(a.Seed, 10))
	assert.Equal(t, a.Tokens, again.Tokens)
	assert.Equal(t, a.Seed, again.Seed)

	// Without --json a seed that chance has chosen is told, and no other.
	o := leat(t, "run", "-m", storiesFile, "-p", "The", "-n", "48")
	assert.Regexp(t, `^seed \d+\n$`, o.err)
	same := leat(t, "run", "-m", storiesFile, "-p", "The", "-n", "48", "--seed", strings.TrimSpace(strings.TrimPrefix(o.err, "seed ")))
	assert.Equal(t, outcome{exitDone, o.out, ""}, same)
}

func TestRunStops(t *testing.T) {
	doc := document[runDocument](t, greedy("--json", "--stop", "nowhere", "--stop", " named", "--raw")...)
	assert.Equal(t, ", there was a little girl", doc.Text)
	assert.Equal(t, generate.Stop, doc.Finish)
	// Until the context is full.
	doc = document[runDocument](t, greedy("--json", "-n", "1000000000", "--ctx", "32")...)
	assert.Equal(t, generate.Length, doc.Finish)
	assert.Len(t, doc.Tokens, 32-5)
}

func TestRunPrompts(t *testing.T) {
	want := done(t, greedy("-n", "16")...)
	args := []string{"run", "-m", storiesFile, "--temp", "0", "-n", "16"}
	o := leatWith(t.Context(), strings.NewReader(opening), args...)
	assert.Equal(t, outcome{exitDone, want, ""}, o)
	file := writeFile(t, "prompt.txt", []byte(opening))
	assert.Equal(t, want, done(t, append(args, "-f", file)...))

	assert.Equal(t, "Once upon a time, there was a little girl named Lily. She", strings.TrimSpace(done(t, append(args, "-p", "")...)))
	marked := writeFile(t, "marked.txt", []byte("\uFEFF"+opening))
	assert.Equal(t, want, done(t, append(args, "-f", marked)...), "a byte order mark is no part of the text")
	o = leatWith(t.Context(), strings.NewReader("\uFEFF"+opening), append(args, "-f", "-")...)
	assert.Equal(t, outcome{exitDone, want, ""}, o)
	failed(t, leat(t, append(args, "-f", file+".no")...), "prompt", "no such file")
	broken := io.MultiReader(strings.NewReader("Once"), brokenReader{errors.New("cut off")})
	failed(t, leatWith(t.Context(), broken, args...), "standard input", "cut off")

	long := strings.Repeat("Once upon a time. ", 100)
	o = leat(t, append(args, "-p", long, "--json")...)
	failed(t, o, "128", "longer than the context")
	assert.Equal(t, generate.Failed, parsed[runDocument](t, o.out).Finish)
	o = leat(t, append(args, "-p", long)...)
	failed(t, o)
	assert.Empty(t, o.out)
}

type brokenReader struct{ error }

func (e brokenReader) Read([]byte) (int, error) { return 0, e.error }

func TestRunWarnsOfContext(t *testing.T) {
	o := leat(t, greedy("-n", "2", "--ctx", "129")...)
	assert.Equal(t, exitDone, o.status)
	assert.Regexp(t, `^leat: warning: --ctx 129 .* 128 tokens.*\n$`, o.err)
	assert.Empty(t, leat(t, greedy("-n", "2", "--ctx", "128")...).err)
}

func TestRunInterrupted(t *testing.T) {
	t.Run("while it writes", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w := &stopper{stop: stop}
		var stderr strings.Builder
		status := run(ctx, greedy("-n", "4000", "--ctx", "4096", "--temp", "1"), strings.NewReader(""), w, &stderr)
		assert.Equal(t, exitInterrupted, status)
		assert.Regexp(t, `^leat: warning: [^\n]*\nseed \d+\n$`, stderr.String())
		assert.Greater(t, len(w.text), 1)
		assert.Equal(t, "\n", w.text[len(w.text)-1])
	})
	t.Run("while it waits for the prompt", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		defer w.Close() // ends the goroutine that reads
		go func() {
			_, _ = w.Write([]byte("Once")) // returns when it is being read
			stop()
		}()
		assert.Equal(t, outcome{exitInterrupted, "", ""}, leatWith(ctx, r, "run", "-m", storiesFile))
	})
	t.Run("before it loads", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		assert.Equal(t, outcome{exitInterrupted, "", ""}, leatWith(ctx, strings.NewReader(""), greedy()...))
	})
	t.Run("JSON", func(t *testing.T) {
		m, err := model.Open(storiesFile)
		require.NoError(t, err)
		defer m.Close()
		e, err := generate.New(t.Context(), m, generate.WithContext(4096))
		require.NoError(t, err)
		defer e.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var d continuation
		request := generate.Request{Tokens: []int32{1}, IgnoreEnd: true}
		assert.ErrorIs(t, d.write(ctx, &stopper{stop: stop}, e, request), context.Canceled)
		doc := d.document(request, e.Stats().Stages, time.Millisecond)
		assert.Equal(t, generate.Cancelled, doc.Finish)
		assert.NotEmpty(t, doc.Tokens)
		assert.NotEmpty(t, doc.Text)
	})
}

// stopper is Ctrl+C at the first text.
type stopper struct {
	text pieces
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.text.Write(b)
}

func TestRunCantWrite(t *testing.T) {
	var stderr strings.Builder
	status := run(t.Context(), greedy(), strings.NewReader(""), full{}, &stderr)
	failed(t, outcome{status, "", stderr.String()}, "disk is full")
	stderr.Reset()
	status = run(t.Context(), greedy("--json"), strings.NewReader(""), full{}, &stderr)
	failed(t, outcome{status, "", stderr.String()}, "disk is full")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// A model whose weights make no sense fails in the middle: the object is printed
// all the same.
func TestRunFailsInside(t *testing.T) {
	nan := float32(0)
	nan /= nan
	gain := make([]float32, 64)
	for i := range gain {
		gain[i] = nan
	}
	path := writeFile(t, "nan.gguf", gguftest.Llama{Tensors: []gguftest.Tensor{
		{Name: "output_norm.weight", Dims: []uint64{64}, Data: gguftest.F32(gain...)},
	}}.Build())
	o := leat(t, "run", "-m", path, "-p", "a", "--json")
	failed(t, o, "request failed after 0 tokens")
	doc := parsed[runDocument](t, o.out)
	assert.Equal(t, generate.Failed, doc.Finish)
	assert.NotNil(t, doc.Tokens)
}

// A top_p of 0 that was written is the limit of ever smaller ones.
func TestRunTopPZero(t *testing.T) {
	sampled := []string{"run", "-m", storiesFile, "-p", opening, "-n", "40", "--temp", "1.5", "--seed", "5"}
	want := done(t, greedy("-n", "40")...)
	assert.Equal(t, want, done(t, append(sampled, "--top-p", "0")...))
	assert.Equal(t, want, done(t, append(sampled, "--top-p", "0.000001")...))
	assert.NotEqual(t, want, done(t, append(sampled, "--top-p", "1")...))
}

// Until templates are applied, a model that has one says so, unless --raw asks for it.
func TestRunSaysThatAPromptIsRaw(t *testing.T) {
	path := writeFile(t, "chat.gguf", gguftest.Llama{KVs: []gguftest.KV{{Key: "tokenizer.chat_template", Value: "{{ messages }}"}}}.Build())
	args := []string{"run", "-m", path, "-p", "a", "-n", "2", "--temp", "0"}
	o := leat(t, args...)
	assert.Equal(t, exitDone, o.status)
	assert.Regexp(t, `^leat: the model has a chat template, [^\n]* --raw says\n$`, o.err)
	assert.Equal(t, o.out, done(t, append(args, "--raw")...))
	in := writeFile(t, "in.jsonl", []byte(`{"prompt":"a","max_tokens":1}`))
	assert.Contains(t, leat(t, "batch", "-m", path, "-i", in, "-o", "-").err, "the prompt is taken as it is")
}

func TestPlacementFromStandardInput(t *testing.T) {
	plan := done(t, "plan", "-m", storiesFile, "--devices", "cpu:0,cpu:0", "--json")
	args := append(greedy("-n", "5", "--json"), "--placement", "-")
	o := leatWith(t.Context(), strings.NewReader(plan), args...)
	require.Equal(t, exitDone, o.status, o.err)
	assert.Len(t, parsed[runDocument](t, o.out).Stages, 2)
	o = leatWith(t.Context(), strings.NewReader("{"), args...)
	failed(t, o, "standard input: $: the file ends too early")
	// Planned several times, it is read once.
	o = leatWith(t.Context(), strings.NewReader(plan), "bench", "-m", storiesFile, "--placement", "-", "--prefill", "8", "--decode", "2", "--concurrency", "1", "--repeat", "1")
	assert.Equal(t, exitDone, o.status, o.err)
}

// A device that was asked for and has no stage is named, with the reason.
func TestDevicesWithoutAStageAreNamed(t *testing.T) {
	const what = "leat: cpu:0 has no stage: no layer fits: its budget is 200.0 KiB"
	for _, args := range [][]string{
		greedy("-n", "1"), {"bench", "-m", storiesFile, "--prefill", "1", "--decode", "1", "--concurrency", "1", "--repeat", "1"},
		{"logits", "-m", storiesFile, "--tokens", "1", "-o", "-"}, {"demo", "-n", "1", "--json"},
	} {
		o := leat(t, append(args, "--devices", "cpu:0,cpu:0=200KiB")...)
		assert.Equal(t, exitDone, o.status, args)
		assert.Equal(t, 1, strings.Count(o.err, what), o.err)
	}
}
