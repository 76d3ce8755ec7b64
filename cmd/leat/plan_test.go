package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/model/gguf/gguftest"
)

func TestPlan(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(done(t, "plan", "-m", storiesFile, "--devices", "cpu:0,cpu:0=1GiB", "--max-seqs", "1")), "\n")
	require.Len(t, lines, 4)
	assert.Regexp(t, `^device +layers +weights +kv cache +other +total / budget$`, lines[0])
	assert.Regexp(t, `^cpu:0 +embedding, blocks 0-\d .* KiB .* / no limit$`, lines[1])
	assert.Regexp(t, `^cpu:0 +blocks \d-4, output head .* KiB .* / 1.0 GiB$`, lines[2])
	assert.Equal(t, "2 stages, context of 128 tokens, 1 sequence, 4 kv pages of 32 tokens", lines[3])
}

func TestPlanJSON(t *testing.T) {
	doc := document[planDocument](t, "plan", "-m", storiesFile, "--devices", "cpu:0,cpu:0=1GiB", "--json")
	assert.Equal(t, 1, doc.Version)
	assert.True(t, doc.Fits)
	require.Len(t, doc.Stages, 2)
	a, b := doc.Stages[0], doc.Stages[1]
	assert.Equal(t, 0, a.From)
	assert.Equal(t, a.To, b.From)
	assert.Equal(t, 7, b.To)
	assert.Equal(t, []int64{0, 1 << 30}, []int64{a.Budget, b.Budget})
	assert.Positive(t, a.Bytes)
	assert.Positive(t, b.Bytes)
	covered := 0
	for _, s := range doc.Stages {
		for _, key := range placementKeys(s.From, s.To, 7) {
			assert.Equal(t, s.Device, doc.Layers[key])
			covered++
		}
	}
	assert.Len(t, doc.Layers, covered)
	assert.Equal(t, "cpu:0", doc.Layers["embedding"])
	assert.Equal(t, "cpu:0", doc.Layers["output"])
}

func TestPlacementKeys(t *testing.T) {
	for _, c := range []struct {
		from, to, entries int
		want              string
	}{
		{0, 7, 7, "embedding 0-4 output"},
		{0, 1, 7, "embedding"},
		{0, 2, 7, "embedding 0"},
		{1, 6, 7, "0-4"},
		{3, 4, 7, "2"},
		{5, 7, 7, "4 output"},
		{6, 7, 7, "output"},
		{0, 2, 2, "embedding output"},
	} {
		assert.Equal(t, c.want, strings.Join(placementKeys(c.from, c.to, c.entries), " "), c)
	}
}

func TestPlanDoesNotFit(t *testing.T) {
	for _, more := range [][]string{
		{"--devices", "cpu:0=100KiB"},
		{"--devices", "cpu:0=100KiB", "--json"},
		{"--kv-memory", "1KiB"},
		{"--reserve", "1EiB", "--json"},
	} {
		o := leat(t, append([]string{"plan", "-m", storiesFile}, more...)...)
		failed(t, o, "fit")
	}
}

// By default a plan has no more than 4096 tokens of the model's own length.
func TestPlanOfALargeContext(t *testing.T) {
	path := writeFile(t, "m.gguf", gguftest.Llama{Blocks: 3, Context: 1 << 20}.Build())
	doc := document[planDocument](t, "plan", "-m", path, "--json", "--max-seqs", "2", "--kv", "f32")
	small := document[planDocument](t, "plan", "-m", path, "--json", "--max-seqs", "2", "--ctx", "128")
	assert.Greater(t, doc.Stages[0].Bytes, small.Stages[0].Bytes)
	text := done(t, "plan", "-m", path, "--max-seqs", "2")
	assert.Contains(t, text, "context of 4096 tokens, 2 sequences, 256 kv pages")
}
