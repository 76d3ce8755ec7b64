package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSweep(t *testing.T) {
	args := []string{"bench", "-m", storiesFile, "--sweep", "--sweep-time", "1s", "--repeat", "2", "--concurrency", "1,3", "--decode", "4,8", "--kv", "f32"}
	o := leat(t, append(args, "--json")...)
	require.Equal(t, exitDone, o.status, o.err)
	doc := parsed[sweepDocument](t, o.out)
	assert.Equal(t, 8, doc.Test.Tokens)
	assert.Equal(t, 3, doc.Test.Concurrency)
	require.NotEmpty(t, doc.Results)
	assert.True(t, slices.IsSortedFunc(doc.Results, func(a, b trialDocument) int { return int(b.Speed - a.Speed) }))
	given := 0
	for _, r := range doc.Results {
		assert.Positive(t, r.Speed)
		assert.GreaterOrEqual(t, len(r.Samples), 2)
		assert.NotEmpty(t, r.Devices)
		if len(r.Flags) == 0 {
			given++
		}
	}
	assert.Equal(t, 1, given)
	require.NotNil(t, doc.Ratio)
	assert.GreaterOrEqual(t, *doc.Ratio, 1.0)
	best := "leat bench -m " + storiesFile + " --repeat 2 --kv f32 --decode 8 --concurrency 3"
	assert.True(t, strings.HasPrefix(doc.Best, best), doc.Best)

	// The command line that is printed runs.
	again := done(t, append(strings.Fields(strings.ReplaceAll(doc.Best, "'", ""))[1:], "--prefill", "8")...)
	assert.Contains(t, again, "decode")

	text := done(t, append(args, "--sweep-time", "0", "--devices", "cpu,cpu")...)
	assert.Regexp(t, `^8 tokens added to each of 3 prompts of 16 tokens, at once\n\ntokens/s +low to high +stages on +flags\n`, text)
	assert.Contains(t, text, "the flags as given\n\nnothing was clearly faster than the flags as given:\n  leat bench -m "+storiesFile)
	assert.Contains(t, text, "--devices cpu,cpu")
}

// What is given isn't tried otherwise.
func TestSweepKeepsWhatIsGiven(t *testing.T) {
	doc := document[sweepDocument](t, "bench", "-m", storiesFile, "--sweep", "--sweep-time", "1s", "--repeat", "1", "--concurrency", "2", "--decode", "2",
		"--devices", "cpu,cpu", "--inflight", "3", "--max-batch", "32", "--json")
	for _, r := range doc.Results {
		assert.Len(t, r.Devices, 2)
		assert.Equal(t, 3, r.InFlight)
		for name := range r.Flags {
			assert.Equal(t, "queue", name)
		}
	}
}

func TestSweepThatCanNotBe(t *testing.T) {
	args := []string{"bench", "-m", storiesFile, "--sweep", "--sweep-time", "0"}
	o := leat(t, append(args, "--trace", "x.json")...)
	assert.Equal(t, exitUsage, o.status)
	assert.Contains(t, o.err, "--sweep and --trace exclude each other")
	o = leat(t, append(args, "--ctx", "4", "--devices", "cpu")...)
	assert.Equal(t, exitFailed, o.status)
	assert.Empty(t, o.out)
	assert.Contains(t, o.err, "leat: skipped the flags as given: ")
	assert.Contains(t, o.err, "(--ctx)")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	assert.Equal(t, outcome{exitInterrupted, "", ""}, leatWith(ctx, strings.NewReader(""), args...))
}
