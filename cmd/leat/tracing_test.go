package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// traced is an event of a trace, as far as it is looked at here.
type traced struct {
	Phase string  `json:"ph"`
	Lane  int     `json:"tid"`
	Time  float64 `json:"ts"`
	Took  float64 `json:"dur"`
	Name  string  `json:"name"`
	ID    int     `json:"id"`
	Args  struct {
		Name    string `json:"name"`
		Dropped int    `json:"dropped"`
	} `json:"args"`
}

// readTrace reads a trace and checks that it is whole: its arrows have both ends,
// and nothing stands beside it in its folder.
func readTrace(t *testing.T, path string) (slices map[string][]traced) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var all []traced
	require.NoError(t, json.Unmarshal(text, &all))
	lanes, arrows := map[int]string{}, map[int]string{}
	slices = map[string][]traced{}
	for _, e := range all {
		switch e.Phase {
		case "M":
			if e.Name == "thread_name" {
				lanes[e.Lane] = e.Args.Name
			}
		case "X":
			if strings.HasPrefix(e.Name, "batch ") {
				slices[lanes[e.Lane]] = append(slices[lanes[e.Lane]], e)
			}
		case "s", "f":
			arrows[e.ID] += e.Phase
		}
	}
	for id, ends := range arrows {
		assert.Equal(t, "sf", ends, "arrow %d", id)
	}
	parts, err := filepath.Glob(path + ".*")
	require.NoError(t, err)
	assert.Empty(t, parts)
	return slices
}

func TestTrace(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte(`{"prompt":"Once"}`+"\n"+`{"prompt":"One day"}`+"\n"))
	for name, args := range map[string][]string{
		"run":    {"run", "-m", storiesFile, "-p", "Once", "-n", "5"},
		"batch":  {"batch", "-m", storiesFile, "-i", in, "-o", filepath.Join(t.TempDir(), "out.jsonl"), "-n", "5"},
		"bench":  {"bench", "-m", storiesFile, "--prefill", "8", "--decode", "2", "--concurrency", "2", "--repeat", "1"},
		"logits": {"logits", "-m", storiesFile, "--tokens", "1,2,3", "-o", filepath.Join(t.TempDir(), "out.f32")},
		"demo":   {"demo", "-n", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.json")
			o := leat(t, append(args, "--devices", "cpu,cpu", "--trace", path)...)
			require.Equal(t, exitDone, o.status, o.err)
			lanes := readTrace(t, path)
			assert.Len(t, lanes, 4)
			n := len(lanes["batches formed"])
			assert.Positive(t, n)
			for lane, slices := range lanes {
				assert.Len(t, slices, n, lane)
			}
		})
	}
}

// Where there are two cores, two stages work at the same time.
func TestTraceShowsStagesThatOverlap(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two stages of one core take turns")
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	done(t, "demo", "--devices", "cpu/2", "--json", "--trace", path)
	var stages [][]traced
	for lane, slices := range readTrace(t, path) {
		if strings.HasPrefix(lane, "stage ") {
			stages = append(stages, slices)
		}
	}
	require.Len(t, stages, 2)
	overlaps := slices.ContainsFunc(stages[0], func(a traced) bool {
		return slices.ContainsFunc(stages[1], func(b traced) bool {
			return a.Time < b.Time+b.Took && b.Time < a.Time+a.Took
		})
	})
	assert.True(t, overlaps)
}

func TestTraceOfAnInterruptedRunIsWhole(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "trace.json")
	args := greedy("-n", "4000", "--ctx", "4096", "--temp", "1", "--devices", "cpu,cpu", "--trace", path)
	assert.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), &stopper{stop: stop}, io.Discard))
	assert.Len(t, readTrace(t, path), 4)
}

func TestTraceThatCanNotBeWritten(t *testing.T) {
	args := []string{"run", "-m", storiesFile, "-p", "Once", "-n", "1"}
	failed(t, leat(t, append(args, "--trace", t.TempDir())...), "is a folder")
	failed(t, leat(t, append(args, "--trace", filepath.Join(t.TempDir(), "no", "such"))...), "can't be written")

	old := writeFile(t, "old.json", []byte("old"))
	failed(t, leat(t, append(args, "--trace", old, "--devices", "cpu:4095")...), "cpu:4095")
	left, err := os.ReadFile(old)
	require.NoError(t, err)
	assert.Equal(t, "old", string(left), "nothing ran: there is no trace")

	for _, clash := range [][]string{
		{"run", "-m", storiesFile, "-p", "a", "--trace", storiesFile},
		{"batch", "-m", storiesFile, "-i", old, "-o", "new.jsonl", "--trace", "new.jsonl"},
		{"run", "-m", storiesFile, "-p", "a", "--trace", "-"},
	} {
		o := leat(t, clash...)
		assert.Equal(t, exitUsage, o.status)
		assert.Contains(t, o.err, "--trace")
	}
	assert.NoFileExists(t, "new.jsonl")
}
