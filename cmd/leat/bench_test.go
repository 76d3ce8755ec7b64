package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/pipeline/generate"
)

func TestBenchJSON(t *testing.T) {
	o := leat(t, "bench", "-m", storiesFile, "--devices", "cpu/2", "--prefill", "8,128,129", "--decode", "4", "--repeat", "2", "--json")
	require.Equal(t, exitDone, o.status, o.err)
	doc := parsed[benchDocument](t, o.out)
	assert.NotEmpty(t, doc.SIMD)
	assert.Len(t, doc.Devices, 2)
	var got []benchTest
	for _, r := range doc.Results {
		assert.Positive(t, r.Speed)
		r.Speed = 0
		got = append(got, r)
	}
	assert.Equal(t, []benchTest{
		{"prefill", 8, 1, 0},
		{"prefill", 128, 1, 0},
		{"decode", 4, 1, 0},
		{"decode", 4, 4, 0},
		{"decode", 4, 16, 0},
	}, got)
	assert.Regexp(t, `^leat: skipped prefill of 129 tokens at concurrency 1: .* 129 .* 128 .*\n$`, o.err)
}

func TestBenchTable(t *testing.T) {
	text := done(t, "bench", "-m", storiesFile, "--prefill", "8", "--decode", "2", "--concurrency", "2,65", "--repeat", "1")
	assert.Regexp(t, `^1 stage: cpu:\S+ with \S+\n\n +test +tokens +concurrency +tokens/s\n`, text)
	for _, line := range []string{`prefill +8 +2 `, `prefill +8 +65 `, `decode +2 +2 `, `decode +2 +65 `} {
		assert.Regexp(t, line, text)
	}
}

func TestBenchSkips(t *testing.T) {
	bench := func(more ...string) outcome {
		return leat(t, append([]string{"bench", "-m", storiesFile, "--prefill", "8", "--decode", "100", "--repeat", "1"}, more...)...)
	}
	o := bench("--max-seqs", "2")
	assert.Equal(t, exitDone, o.status)
	assert.Equal(t, 2, strings.Count(o.err, "--max-seqs"), o.err)
	o = bench("--kv-memory", "600KiB")
	assert.Equal(t, exitDone, o.status)
	assert.Contains(t, o.err, "(--kv-memory)")
	o = bench("--ctx", "4")
	assert.Equal(t, exitFailed, o.status)
	assert.Empty(t, o.out)
	assert.Contains(t, o.err, "no test was measured")
	// Memory for one sequence of --ctx exactly: there is no room for a token more.
	o = bench("--ctx", "32", "--kv-memory", "30KiB", "--max-seqs", "1")
	assert.Equal(t, exitDone, o.status, o.err)
	assert.Contains(t, o.out, "prefill")
}

// Random weights end their texts at any time; that must not count.
func TestBenchOfAModelThatAlwaysEnds(t *testing.T) {
	// All logits are 0, of which the first is drawn, and that one is the end.
	path := writeFile(t, "ends.gguf", gguftest.Llama{
		KVs:     []gguftest.KV{{Key: "tokenizer.ggml.eos_token_id", Value: uint32(0)}},
		Tensors: []gguftest.Tensor{{Name: "output.weight", Dims: []uint64{64, 320}}},
	}.Build())
	ends := document[runDocument](t, "run", "-m", path, "-p", "a", "--temp", "0", "--json")
	require.Equal(t, generate.Stop, ends.Finish)
	require.Empty(t, ends.Tokens)
	doc := document[benchDocument](t, "bench", "-m", path, "--prefill", "8", "--decode", "8", "--concurrency", "2", "--repeat", "1", "--json")
	require.Len(t, doc.Results, 2)
	assert.Positive(t, doc.Results[0].Speed)
	assert.Positive(t, doc.Results[1].Speed)
}

func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w strings.Builder
		b := newBar(&w, "loading")
		assert.Nil(t, b.w, "not a terminal")
		b.w = &w
		b.bytes(1, 100)
		b.say("nothing")
		b.clear()
		assert.Empty(t, w.String(), "what is soon done needs no bar")
		<-time.After(patience)
		b.bytes(50<<20, 100<<20)
		assert.Equal(t, eraseLine+"loading "+strings.Repeat("█", 12)+strings.Repeat("░", 12)+" 50.0 MiB of 100.0 MiB", w.String())
		w.Reset()
		b.bytes(60<<20, 100<<20)
		assert.Empty(t, w.String(), "it was drawn just now")
		b.clear()
		b.clear()
		assert.Equal(t, eraseLine, w.String())
		<-time.After(interval)
		b.bytes(0, 0)
		assert.Contains(t, w.String(), "0 B of 0 B")
	})
}

// Ctrl+C keeps what was measured before it.
func TestBenchInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer time.AfterFunc(time.Second, stop).Stop()
	args := []string{"bench", "-m", storiesFile, "--prefill", "8", "--decode", "1000000", "--ctx", "2000000", "--concurrency", "1", "--repeat", "1"}
	o := leatWith(ctx, strings.NewReader(""), args...)
	assert.Equal(t, exitInterrupted, o.status, o.err)
	assert.Regexp(t, `prefill +8 +1 +\d+\.\d`, o.out)
}
