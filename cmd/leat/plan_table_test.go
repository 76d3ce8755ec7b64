package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline"
)

func TestPlanTable(t *testing.T) {
	for list, want := range map[string]string{
		"cuda:0=400MiB@3,rocm:0@2,cpu=64MiB@1": `
device  layers                   weights   kv cache      other         total / budget             full  round
cuda:0  embedding, blocks 0-2  690.5 KiB  192.0 KiB  385.4 MiB  386.3 MiB / 400.0 MiB  ██████████  97%    38%
rocm:0  blocks 3-4             355.0 KiB  128.0 KiB  385.7 MiB  386.2 MiB /  no limit                     36%
cpu     output head            128.2 KiB        0 B  850.7 KiB  978.9 KiB /  64.0 MiB  ░░░░░░░░░░   1%    26%
a round of batch 1 through the full pipeline, 3 batches in flight, · waits
cuda:0  1━━━━━━━━━━━━━━━━━━━━━━2━━━━━━━━━━━━━━━━━━━━━3━━━━━━━━━━━━━━  100% busy
rocm:0  3━━━━━━━━━━━━━━━━━━━━━·1━━━━━━━━━━━━━━━━━━━━·2━━━━━━━━━━━━━━   95% busy
cpu     2━━━━━━━━━━━━━━·······3━━━━━━━━━━━━━━·······1━━━━━━━━━━━━━━━   69% busy
crossings 2, slowest stage cuda:0 (38% of a round), expected 1.9 × one device
3 stages, context of 128 tokens, 4 sequences, 16 kv pages of 32 tokens
`,
		"cpu/2": `
device  layers                     weights   kv cache    other      total / budget  full  round
cpu:0   embedding, blocks 0-2    666.5 KiB  288.0 KiB  1.3 MiB  2.2 MiB / no limit          53%
cpu:1   blocks 3-4, output head  487.3 KiB  192.0 KiB  1.2 MiB  1.8 MiB / no limit          47%
a round of batch 1 through the full pipeline, 2 batches in flight, · waits
cpu:0  1━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━2━━━━━━━━━━━━━━━━━━━━━━━━━━━  100% busy
cpu:1  2━━━━━━━━━━━━━━━━━━━━━━━━━━━····1━━━━━━━━━━━━━━━━━━━━━━━━━━━   90% busy
crossings 1, slowest stage cpu:0 (53% of a round), expected 1.9 × one device
2 stages, context of 128 tokens, 4 sequences, 16 kv pages of 32 tokens
`,
		"metal:0=512MiB": `
device   layers                              weights   kv cache      other     total / budget             full  round
metal:0  embedding, blocks 0-4, output head  1.1 MiB  320.0 KiB  385.1 MiB  386.5 / 512.0 MiB  ████████░░  75%   100%
a round of batch 1 through the full pipeline, 1 batch in flight, · waits
metal:0  1━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100% busy
crossings 0, slowest stage metal:0 (100% of a round), expected 1.0 × one device
1 stage, context of 128 tokens, 4 sequences, 16 kv pages of 32 tokens
`,
	} {
		assert.Equal(t, strings.TrimPrefix(want, "\n"), estimated(t, storiesFile, list, "--max-seqs", "4"), list)
	}
}

const gib = int64(1) << 30

// stageOf is a stage on a device in a memory with some room.
func stageOf(name, memory string, room, budget, weights int64, seconds float64) pipeline.StagePlan {
	return pipeline.StagePlan{
		Device: device.Info{Name: name}, Layers: "block 0", Memory: memory, Room: room,
		Budget: budget, Weights: weights, Seconds: seconds,
	}
}

func viewOf(slowest int, stages ...pipeline.StagePlan) *planView {
	for i := range stages {
		stages[i].From, stages[i].To = i, i+1
		stages[i].Entries = []pipeline.Entry{{Name: "block 0", Weights: stages[i].Weights}}
	}
	v := &planView{model: "a model", pace: "pace", room: "room"}
	v.addStages(stages, slowest)
	return v
}

// A place has its own budget, or what is free in its memory; what stages share is
// said once, under the table.
func TestPlanTableOfMemories(t *testing.T) {
	v := viewOf(2,
		stageOf("cuda:0", "cuda:0", 20*gib, 0, 10*gib, 1),   // alone in its memory
		stageOf("cuda:1", "cuda:1", 4*gib, 8*gib, 3*gib, 1), // whose free memory is below its budget
		stageOf("cpu:0", "the host's memory", 64*gib, 0, gib, 2),
		stageOf("cpu:1", "the host's memory", 64*gib, 2*gib, gib, 0),
		stageOf("rocm:0", "rocm:0", 0, 0, gib, 0), // nothing known
	)
	var out bytes.Buffer
	require.NoError(t, v.print(&out))
	assert.Equal(t, strings.TrimPrefix(`
device  layers    weights  kv cache  other       total / budget             full  round
cuda:0  block 0  10.0 GiB       0 B    0 B  10.0 GiB / 20.0 GiB  █████░░░░░  50%    25%
cuda:1  block 0   3.0 GiB       0 B    0 B   3.0 GiB /  4.0 GiB  ████████░░  75%    25%
cpu:0   block 0   1.0 GiB       0 B    0 B   1.0 GiB /   shared  ░░░░░░░░░░   2%    50%
cpu:1   block 0   1.0 GiB       0 B    0 B   1.0 GiB /  2.0 GiB  █████░░░░░  50%     0%
rocm:0  block 0   1.0 GiB       0 B    0 B   1.0 GiB / no limit                      0%
the host's memory is shared: 2 stages take 2.0 of the 64.0 GiB that are free
pace
5 stages, room
`, "\n"), out.String())
}

// A stage's share is of the time of all of them.
func TestPlanShares(t *testing.T) {
	v := viewOf(1,
		stageOf("cpu:0", "", 0, 0, 1, 1),
		stageOf("cpu:1", "", 0, 0, 1, 6),
		stageOf("cpu:0", "", 0, 0, 1, 3),
	)
	var shares, paces []float64
	for _, s := range v.stages {
		shares, paces = append(shares, s.share), append(paces, s.pace)
		assert.Equal(t, s.pace == 1, s.slowest)
	}
	assert.Equal(t, []float64{0.1, 0.6, 0.3}, shares)
	assert.InDeltaSlice(t, []float64{1. / 6, 1, 0.5}, paces, 1e-12)
	assert.Equal(t, []int{0, 1, 0}, []int{v.stages[0].device, v.stages[1].device, v.stages[2].device})
	assert.Equal(t, "cpu:1", v.nameOf(v.stages[1]))
	assert.Equal(t, "cpu:0 with block 0", v.nameOf(v.stages[2]), "it isn't the only stage there")

	idle := viewOf(0, stageOf("cpu:0", "", 0, 0, 1, 0)) // layers that take no time
	assert.Zero(t, idle.stages[0].share)
	assert.Zero(t, idle.stages[0].pace)
}

// In a window that is too narrow the columns that matter less go, and then the table
// becomes a list. Nothing is wider than the window.
func TestPlanTableInANarrowWindow(t *testing.T) {
	v := viewOf(0, stageOf("cuda:0", "cuda:0", 20*gib, 0, 10*gib, 1), stageOf("cuda:1", "cuda:1", 20*gib, 0, 10*gib, 1))
	v.unused = []string{"cpu has no stage: no plan that fits would be faster with it"}
	v.limit = "pages for 3 of 64 sequences at full length: cuda:0 has no room for more"
	v.round = newTimeline([]pipeline.StagePlan{v.stages[0].StagePlan, v.stages[1].StagePlan}, 2, 1)
	head := func(width int) string {
		first, _, _ := strings.Cut(ansi.Strip(v.table(width)), "\n")
		return first
	}
	whole := head(0)
	assert.Equal(t, whole, head(ansi.StringWidth(whole)))
	narrower := head(ansi.StringWidth(whole) - 1)
	assert.NotContains(t, narrower, "full")
	assert.Contains(t, narrower, "round")
	least := head(ansi.StringWidth(narrower) - 1)
	assert.NotContains(t, least, "round")
	assert.Contains(t, least, "total / budget")
	assert.Equal(t, "cuda:0", head(ansi.StringWidth(least)-1))
	for _, width := range []int{12, 20, 50, 80, 200} {
		text := ansi.Strip(v.table(width))
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\n")), width, line)
		}
		for _, part := range []string{"cuda:1", "weights", "10.0 GiB", "kv", "total", "20.0", "would", "more", "1━"} {
			assert.Contains(t, text, part, width)
		}
	}
	assert.Contains(t, v.table(0), "\x1b[", "coloured until the writer takes that away")
}

func TestPlanNumbers(t *testing.T) {
	for part, want := range map[float64]string{0: "0%", 0.001: "<1%", 0.0051: "1%", 0.5: "50%", 1: "100%", 1.2: "120%"} {
		assert.Equal(t, want, percent(part))
	}
	for n, want := range map[uint64]string{0: "0", 999_999: "999999", 1_000_000: "1.0 million", 1_100_000_000: "1.1 billion", 2e12: "2.0 trillion"} {
		assert.Equal(t, want, rough(n))
	}
	assert.Equal(t, "12.0 / 20.0 GiB", outOf(12*gib, 20*gib, " / "))
	assert.Equal(t, "512.0 MiB / 1.0 GiB", outOf(gib/2, gib, " / "))
	assert.Equal(t, "7 / 9 B", outOf(7, 9, " / "))
}

// A stage with replicas has a row for each, and is one stage.
func TestPlanTableOfReplicas(t *testing.T) {
	out := estimated(t, storiesFile, "cuda:0=1GiB@1|cuda:1=2GiB@1,cuda:2=1GiB@2", "--max-seqs", "4")
	lines := strings.Split(out, "\n")
	assert.Regexp(t, `^cuda:0    embedding.* / 1\.0 GiB .*53%$`, lines[1])
	assert.Regexp(t, `^\| cuda:1  embedding.* / 2\.0 GiB .*53%$`, lines[2])
	assert.Regexp(t, `^cuda:2    block.* / 1\.0 GiB .*47%$`, lines[3])
	assert.Contains(t, out, "slowest stage cuda:0|cuda:1 (53% of a round)")
	assert.Contains(t, out, "2 stages, context")

	text := estimated(t, storiesFile, "cuda:0=1GiB|cuda:1=2GiB,cuda:2=1GiB", "--max-seqs", "4", "--json")
	doc := parsed[planned](t, text)
	assert.Equal(t, "cuda:0=1073741824|cuda:1=2147483648", doc.Layers["embedding"])
	assert.Equal(t, "cuda:0|cuda:1", doc.Stages[0].Device)
	assert.EqualValues(t, gib, doc.Stages[0].Budget, "that of each, the least")

	// A saved plan is a placement, with its replicas.
	list := "cpu:0=1GiB|cpu:0,cpu:0"
	text = leat(t, "plan", "-m", storiesFile, "--devices", list, "--max-seqs", "4", "--json").out
	placed := leat(t, "plan", "-m", storiesFile, "--placement", writeFile(t, "plan.json", []byte(text)), "--max-seqs", "4", "--json")
	require.Equal(t, exitDone, placed.status, placed.err)
	assert.Equal(t, "cpu:0|cpu:0", parsed[planned](t, placed.out).Stages[0].Device)
	assert.Equal(t, parsed[planned](t, text).Layers, parsed[planned](t, placed.out).Layers)

	picture := estimated(t, storiesFile, "cuda:0=1GiB@1|cuda:1=2GiB@1,cuda:2=1GiB@2", "--max-seqs", "4", "--svg", "-")
	checkPicture(t, picture)
	assert.Equal(t, 1, strings.Count(picture, "<title>activations go from cuda:0|cuda:1 to cuda:2</title>"))
	assert.Contains(t, picture, "| cuda:1")
}
