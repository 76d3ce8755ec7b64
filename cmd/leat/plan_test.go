package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// planned is what leat plan --json prints, as anybody may read it.
type planned struct {
	Version  int               `json:"version"`
	Layers   map[string]string `json:"layers"`
	Stages   []planStage       `json:"stages"`
	Expected planExpected      `json:"expected"`
	Room     planRoom          `json:"room"`
	Unused   []planUnused      `json:"unused"`
	Fits     bool              `json:"fits"`
}

// estimated returns what a plan for imagined devices prints; it must succeed and
// say that it is an estimate, in one line.
func estimated(t *testing.T, model, list string, more ...string) string {
	t.Helper()
	o := leat(t, append([]string{"plan", "-m", model, "--what-if", list}, more...)...)
	require.Equal(t, exitDone, o.status, o.err)
	assert.Regexp(t, `^leat: --what-if: an estimate for devices that aren't here: [^\n]*\n$`, o.err)
	return o.out
}

func llama(t *testing.T, like gguftest.Llama) string {
	t.Helper()
	return writeFile(t, "model.gguf", like.Build())
}

func TestPlan(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(done(t, "plan", "-m", storiesFile, "--devices", "cpu:0,cpu:0=1GiB", "--max-seqs", "1")), "\n")
	require.Len(t, lines, 9)
	assert.Regexp(t, `^device +layers +weights +kv cache +other +total / budget +full +round$`, lines[0])
	assert.Regexp(t, `^cpu:0 +embedding, blocks 0-\d .* MiB / +shared +░{10} +<1% +\d+%$`, lines[1])
	assert.Regexp(t, `^cpu:0 +blocks \d-4, output head .* [KM]iB / 1.0 GiB +░{10} +<1% +\d+%$`, lines[2])
	assert.Regexp(t, `^the host's memory is shared: 2 stages take \S+ MiB of the \S+ [GT]iB that are free$`, lines[3])
	assert.Equal(t, "a round of batch 1 through the full pipeline, 2 batches in flight, · waits", lines[4])
	assert.Regexp(t, `^cpu:0  1━+·+ +\d+% busy$`, lines[5])
	assert.Regexp(t, `^cpu:0  ·+1━+·* +\d+% busy$`, lines[6], "the two take turns on one core")
	assert.Regexp(t, `^crossings 0, slowest stage cpu:0 with [a-z]+.* \(\d+% of a round\), expected \d\.\d × one device$`, lines[7])
	assert.Equal(t, "2 stages, context of 128 tokens, 1 sequence, 4 kv pages of 32 tokens", lines[8])
}

func TestPlanJSON(t *testing.T) {
	doc := document[planned](t, "plan", "-m", storiesFile, "--devices", "cpu:0,cpu:0=1GiB", "--json")
	assert.Equal(t, 1, doc.Version)
	assert.True(t, doc.Fits)
	require.Len(t, doc.Stages, 2)
	a, b := doc.Stages[0], doc.Stages[1]
	assert.Equal(t, "cpu:0", a.Device)
	assert.Equal(t, "cpu:0", b.Device)
	assert.Equal(t, 0, a.From)
	assert.Equal(t, a.To, b.From)
	assert.Equal(t, 7, b.To)
	assert.Equal(t, []int64{0, 1 << 30}, []int64{a.Budget, b.Budget})
	assert.Positive(t, a.Bytes)
	assert.Positive(t, b.Bytes)
	assert.Equal(t, "cpu:0", doc.Layers["embedding"])
	assert.Equal(t, "cpu:0=1073741824", doc.Layers["output"], "with its budget, so that the saved plan keeps it")
	for _, s := range doc.Stages {
		assert.Equal(t, s.Bytes, s.Weights+s.KVCache+s.Other)
		assert.Positive(t, s.Seconds)
	}
	assert.InDelta(t, 1, a.Round+b.Round, 1e-9)
	assert.Equal(t, planRoom{Context: 128, MaxSeqs: 64, Pages: 256, PageTokens: 32, Sequences: 64}, doc.Room)
	assert.Equal(t, 8, doc.Expected.BatchRows)
	assert.Positive(t, doc.Expected.RowsPerSecond)
	assert.Positive(t, doc.Expected.Speedup)
	assert.Empty(t, doc.Unused)

	text := estimated(t, storiesFile, "cpu:0=0@1,cpu:1=2MiB@1,cpu:2=100KiB@1", "--json", "--max-seqs", "64", "--max-batch", "16")
	doc = parsed[planned](t, text)
	assert.Equal(t, "cpu:1", doc.Room.LimitedBy)
	assert.Less(t, doc.Room.Sequences, 64)
	assert.Zero(t, doc.Expected.RowsPerSecond, "speeds of a list are relative")
	require.Len(t, doc.Unused, 2)
	assert.Equal(t, planUnused{"cpu:0", "its budget is 0"}, doc.Unused[0])
	assert.Equal(t, "cpu:2", doc.Unused[1].Device)
	assert.Contains(t, doc.Unused[1].Reason, "no layer fits: its budget is 100.0 KiB")
	assert.Contains(t, text, "\n      \"device\": \"cpu:1\"", "indented")
}

// Keys of "layers" stand in forward order, and the object is a placement that
// gives the same runs.
func TestPlanJSONIsAPlacement(t *testing.T) {
	path := llama(t, gguftest.Llama{Blocks: 12})
	text := estimated(t, path, "cpu:0@1,rocm:0=2GiB@3,cpu:1@1,cuda:0@2", "--json")
	var keys []string
	for _, m := range regexp.MustCompile(`"([^"]*)": "(?:cpu|rocm|cuda)`).FindAllStringSubmatch(text[:strings.Index(text, `"stages"`)], -1) {
		keys = append(keys, m[1])
	}
	require.Greater(t, len(keys), 5)
	assert.Equal(t, "embedding", keys[0])
	assert.Equal(t, "output", keys[len(keys)-1])
	next := 0
	for _, key := range keys[1 : len(keys)-1] {
		var from, to int
		if n, _ := fmt.Sscanf(key, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		assert.Equal(t, next, from, keys)
		next = to + 1
	}
	assert.Equal(t, 12, next)

	doc := parsed[planned](t, text)
	names := []string{"embedding"}
	for i := range 12 {
		names = append(names, fmt.Sprintf("block %d", i))
	}
	file, err := placement.Parse("plan", []byte(text))
	require.NoError(t, err)
	runs, err := file.Runs(append(names, "output head"), nil)
	require.NoError(t, err)
	require.Len(t, runs, len(doc.Stages))
	for i, s := range doc.Stages {
		assert.Equal(t, [2]int{s.From, s.To}, [2]int{runs[i].From, runs[i].To})
		assert.True(t, strings.HasPrefix(runs[i].Device, s.Device))
	}
	assert.True(t, json.Valid([]byte(text)))
}

// noFit checks that a model doesn't fit, what the line about it says, and that ways out,
// or that there is none, stand below.
func noFit(t *testing.T, o outcome, what ...string) {
	t.Helper()
	assert.Equal(t, exitFailed, o.status, o.err)
	first, rest, _ := strings.Cut(o.err, "\n")
	for _, w := range append(what, "leat: the model doesn't fit") {
		assert.Contains(t, first, w)
	}
	assert.Regexp(t, `^(it fits with +bytes in all  which gives\n(--\S+ \S+|no --kv-memory) .*\n|.*would not help: use more or larger devices)`, rest)
	assert.NotContains(t, o.err, "\x1b")
}

// A model that doesn't fit is a line that says what is short, and a table of ways out.
// Standard output gets nothing, or with --json an object that says the same; no picture
// is drawn.
func TestPlanDoesNotFit(t *testing.T) {
	picture := t.TempDir() + "/plan.svg"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"cpu:0: budget 100.0 KiB", []string{"--devices", "cpu:0=100KiB"}},
		{"cpu:0: budget 100.0 KiB", []string{"--devices", "cpu:0=100KiB", "--json"}},
		{"cpu:0: budget 100.0 KiB", []string{"--devices", "cpu:0=100KiB", "--svg", picture}},
		{"cpu:0: budget 100.0 KiB", []string{"--devices", "cpu:0=100KiB", "--svg", "-"}},
		{"key/value memory of 1.0 KiB", []string{"--kv-memory", "1KiB"}},
		{"fit", []string{"--reserve", "1EiB", "--json"}},
		{"cuda:0: budget 1.0 MiB", []string{"--what-if", "cuda:0=1MiB"}},
		{"cpu: budget 0 B", []string{"--what-if", "cpu=0"}},
	} {
		o := leat(t, append([]string{"plan", "-m", storiesFile}, c.args...)...)
		noFit(t, o, c.want)
		if slices.Contains(c.args, "--json") {
			doc := parsed[noFitDocument](t, o.out)
			assert.False(t, doc.Fits)
			assert.Contains(t, doc.Error, c.want)
			assert.NotNil(t, doc.WaysOut)
		} else {
			assert.Empty(t, o.out)
		}
		assert.NotContains(t, strings.ToLower(o.err), "multi")
	}
	assert.NoFileExists(t, picture)

	// Each way out is one.
	args := []string{"plan", "-m", storiesFile, "--devices", "cpu:0=2500KiB", "--max-seqs", "256"}
	o := leat(t, append(args, "--json")...)
	noFit(t, o)
	ways := parsed[noFitDocument](t, o.out).WaysOut
	require.NotEmpty(t, ways)
	for _, way := range ways {
		assert.Contains(t, o.err, way.Flags+" ")
		assert.Contains(t, o.err, way.Effect)
		done := leat(t, append(args, strings.Fields(way.Flags)...)...)
		assert.Equal(t, exitDone, done.status, "%s: %s", way.Flags, done.err)
	}
}

// The ways out fit a narrow window, too.
func TestWaysOutInANarrowWindow(t *testing.T) {
	ways := []generate.WayOut{
		{Setting: generate.SettingContext, Value: "2048", Bytes: 1 << 30, Effect: "sequences of up to 2048 tokens instead of 4096"},
		{Setting: generate.SettingKVMemory, Bytes: 1 << 20, Effect: "as much as there is"},
	}
	assert.Equal(t, strings.TrimPrefix(`
it fits with    bytes in all  which gives
--ctx 2048           1.0 GiB  sequences of up to 2048 tokens instead of 4096
no --kv-memory       1.0 MiB  as much as there is`, "\n"), noFitTable(ways, 0))
	for _, width := range []int{20, 50} {
		for line := range strings.Lines(noFitTable(ways, width)) {
			assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), width)
		}
	}
}

// By default a plan has no more than 4096 tokens of the model's own length.
func TestPlanOfALargeContext(t *testing.T) {
	path := llama(t, gguftest.Llama{Blocks: 3, Context: 1 << 20})
	doc := document[planned](t, "plan", "-m", path, "--json", "--max-seqs", "2", "--kv", "f32")
	small := document[planned](t, "plan", "-m", path, "--json", "--max-seqs", "2", "--ctx", "128")
	assert.Greater(t, doc.Stages[0].Bytes, small.Stages[0].Bytes)
	text := done(t, "plan", "-m", path, "--max-seqs", "2")
	assert.Contains(t, text, "context of 4096 tokens, 2 sequences, 256 kv pages")
}

// Models of odd shapes, each on devices that make it hard.
func TestPlanOfOddModels(t *testing.T) {
	mib := int64(1 << 20)
	for _, c := range []struct {
		name    string
		model   gguftest.Llama
		list    string
		devices string // of the stages
		layers  string
	}{
		{"one block", gguftest.Llama{Blocks: 1}, "cpu:0", "cpu:0", "embedding, block 0, output head"},
		{"one block on three", gguftest.Llama{Blocks: 1}, "cpu:0=1MiB@1,cpu:1=1MiB@100,cpu:2=1MiB@1", "", ""},
		{"more devices than layers", gguftest.Llama{Blocks: 2}, "cpu/40", "", ""},
		{"equal devices", gguftest.Llama{Blocks: 8}, "cpu:0@1,cpu:1@1", "cpu:0 cpu:1", "embedding, blocks 0-3; blocks 4-7, output head"},
		{"only the second holds the head", gguftest.Llama{Blocks: 2, Vocab: 8192}, "cpu:0=4MiB@9,cpu:1=8MiB@1", "cpu:0 cpu:1", ""},
		{"an embedding larger than all blocks", gguftest.Llama{Blocks: 2, Vocab: 8192, Tied: true}, "cpu:0=4MiB@1,cpu:1=4MiB@1", "cpu:0 cpu:1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			more := []string{"--json", "--max-batch", "8", "--max-seqs", "1"}
			doc := parsed[planned](t, estimated(t, llama(t, c.model), c.list, more...))
			var devices, layers []string
			for i, s := range doc.Stages {
				assert.Less(t, s.From, s.To, "a stage has a layer")
				if i > 0 {
					assert.Equal(t, doc.Stages[i-1].To, s.From)
				}
				if s.Budget > 0 {
					assert.LessOrEqual(t, s.Bytes, s.Budget)
				}
				devices, layers = append(devices, s.Device), append(layers, s.Layers)
			}
			assert.Equal(t, 0, doc.Stages[0].From)
			assert.Equal(t, c.model.Blocks+2, doc.Stages[len(doc.Stages)-1].To)
			if c.devices != "" {
				assert.Equal(t, c.devices, strings.Join(devices, " "))
			}
			if c.layers != "" {
				assert.Equal(t, c.layers, strings.Join(layers, "; "))
			}
		})
	}
	// A tied head on another device than the embedding's takes its bytes again.
	path := llama(t, gguftest.Llama{Blocks: 2, Vocab: 8192, Tied: true})
	doc := parsed[planned](t, estimated(t, path, "cpu:0=4MiB@1,cpu:1=4MiB@1", "--json", "--max-batch", "8", "--max-seqs", "1"))
	assert.Greater(t, doc.Stages[0].Bytes, 2*mib)
	assert.Greater(t, doc.Stages[1].Bytes, 2*mib)
}

// A first block that no device can hold is named, with each budget's reason.
func TestPlanOfABlockThatIsTooLarge(t *testing.T) {
	path := llama(t, gguftest.Llama{Blocks: 2, Width: 64, Hidden: 8192})
	o := leat(t, "plan", "-m", path, "--what-if", "cpu:0=3MiB,cpu:1=4MiB", "--max-seqs", "1", "--max-batch", "1")
	noFit(t, o, "block 0", "budget 4.0 MiB")
	assert.Empty(t, o.out)
}

func TestPlanWhatIf(t *testing.T) {
	all := estimated(t, storiesFile, "cuda:0=400MiB@3,cpu:0-3=2GiB@1")
	assert.Contains(t, all, "cuda:0 ")
	assert.Contains(t, all, "/ 400.0 MiB")
	for list, want := range map[string]string{
		"cuda:0@2,cpu@1":            "memory is what the list says, and so are speeds\n",
		"cuda:0,rocm:1,cuda:1@2":    "speeds without @X are guesses, in CPU cores: cuda 50, rocm 40\n",
		"metal:0=9GiB,cpu":          "in CPU cores: metal 20, cpu 8\n",
		"cpu:0-3,cpu:4":             "and so are speeds\n", // by their cores
		"cpu/4=1GiB":                "in CPU cores: cpu 8\n",
		"cuda:0=1GiB,cuda:0=500MiB": "in CPU cores: cuda 50\n",
	} {
		o := leat(t, "plan", "-m", storiesFile, "--what-if", list)
		assert.Equal(t, exitDone, o.status, o.err)
		assert.True(t, strings.HasSuffix(o.err, want), o.err)
	}
	// A GPU without a speed isn't taken for a core of the CPU.
	doc := parsed[planned](t, estimated(t, llama(t, gguftest.Llama{Blocks: 20}), "cuda:0,cpu:0", "--json"))
	assert.GreaterOrEqual(t, doc.Stages[0].To, 20)
	assert.Equal(t, "cuda:0", doc.Layers["embedding"], "a guess is no part of a placement")
	// Nothing of this machine is in it.
	assert.Equal(t, all, estimated(t, storiesFile, "cuda:0=400MiB@3,cpu:0-3=2GiB@1"))
}

func TestPlanWrongUsage(t *testing.T) {
	for what, args := range map[string][]string{
		"there is no machine":                  {"--what-if", "auto"},
		"two budgets":                          {"--what-if", "cuda:0=1GiB=2GiB"},
		`"vulkan"`:                             {"--what-if", "vulkan:0"},
		"give a size":                          {"--what-if", "cuda:0=50%"},
		"--what-if and --devices exclude":      {"--what-if", "cpu", "--devices", "cpu"},
		"--what-if and --placement exclude":    {"--what-if", "cpu", "--placement", "x.json"},
		"--what-if and --threads exclude":      {"--what-if", "cpu", "--threads", "1"},
		"--what-if and --reserve exclude":      {"--what-if", "cpu", "--reserve", "1GiB"},
		"--svg: no file":                       {"--svg", ""},
		"--svg - and --json exclude each othe": {"--svg", "-", "--json"},
	} {
		o := leat(t, append([]string{"plan", "-m", storiesFile}, args...)...)
		assert.Equal(t, exitUsage, o.status, "%q: %s", args, o.err)
		assert.Empty(t, o.out, args)
		assert.Contains(t, o.err, what)
	}
}

// Outside a terminal there are no colours, whatever the environment says of the
// terminal.
func TestPlanIsPlainOutsideATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("COLORTERM", "truecolor")
	text := estimated(t, storiesFile, "cpu:0=1GiB,cpu:1")
	assert.NotContains(t, text, "\x1b")
	for line := range strings.Lines(text) {
		assert.Equal(t, strings.TrimRight(line, " \n"), strings.TrimSuffix(line, "\n"), "no space at the end")
	}
	assert.False(t, bytes.Contains([]byte(text), []byte("\t")))
}
