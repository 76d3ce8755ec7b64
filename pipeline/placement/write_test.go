package placement_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/placement"
)

func TestLayersOf(t *testing.T) {
	for _, c := range []struct {
		layers []string
		runs   []run
		want   string
	}{
		{model, []run{{"cpu", 0, 7}}, `{"embedding":"cpu","0-4":"cpu","output":"cpu"}`},
		{model, []run{{"cpu", 0, 1}, {"cuda:0", 1, 5}, {"cpu", 5, 7}}, `{"embedding":"cpu","0-3":"cuda:0","4":"cpu","output":"cpu"}`},
		{model, []run{{"cpu", 0, 1}, {"cuda:0", 1, 6}, {"cpu", 6, 7}}, `{"embedding":"cpu","0-4":"cuda:0","output":"cpu"}`},
		{model, []run{{"cpu", 0, 3}, {"cpu", 3, 7}}, `{"embedding":"cpu","0-1":"cpu","2-4":"cpu","output":"cpu"}`},
		{[]string{"embedding", "block 0", "output head"}, []run{{"cpu=1GiB@2", 0, 3}}, `{"embedding":"cpu=1GiB@2","0":"cpu=1GiB@2","output":"cpu=1GiB@2"}`},
		{mlp, []run{{"cuda:0", 0, 1}, {"cpu", 1, 4}}, `{"0":"cuda:0","1-3":"cpu"}`},
		{[]string{"linear", "linear"}, []run{{"cpu", 0, 2}}, `{"0-1":"cpu"}`},
		{[]string{"embedding", "output head"}, []run{{"cpu", 0, 2}}, `{"0-1":"cpu"}`},
		{[]string{"stem", "block 0", "block 1", "block 7", "norm <&>"}, []run{{"cpu", 0, 5}}, `{"stem":"cpu","0-1":"cpu","7":"cpu","norm <&>":"cpu"}`},
		{[]string{"0", "1"}, []run{{"cpu", 0, 2}}, `{"0-1":"cpu"}`},
		{[]string{"a", "3"}, []run{{"cpu", 0, 2}}, ""},
		{[]string{"7", "a"}, []run{{"cpu", 0, 2}}, ""},
		{[]string{"block 0", "norm", "norm"}, []run{{"cpu", 0, 3}}, ""},
		{[]string{"block 0", "*"}, []run{{"cpu", 0, 2}}, ""},
		{[]string{"output", "block 0", "output head"}, []run{{"cpu", 0, 3}}, ""},
	} {
		l, err := placement.LayersOf(c.layers, c.runs)
		if c.want == "" {
			assert.ErrorContains(t, err, "can't be told from the others: rename it", c.layers)
			continue
		}
		require.NoError(t, err, c.layers)
		b, err := l.MarshalJSON()
		require.NoError(t, err)
		assert.Equal(t, c.want, string(b))
	}
}

// Layers stand in a document of encoding/json like any value.
func TestLayersInADocument(t *testing.T) {
	l, err := placement.LayersOf(model, []run{{"cuda:0", 0, 6}, {"cpu", 6, 7}})
	require.NoError(t, err)
	b, err := json.Marshal(struct {
		Version int               `json:"version"`
		Layers  placement.Layers  `json:"layers"`
		Stages  []placement.Stage `json:"stages"`
		Fits    bool              `json:"fits"`
	}{placement.Version, l, []placement.Stage{{"cuda:0", 0, 6, "embedding, blocks 0-4", 9, 10}, {"cpu", 6, 7, "output head", 1, 0}}, true})
	require.NoError(t, err)
	assert.Equal(t, `{"version":1,"layers":{"embedding":"cuda:0","0-4":"cuda:0","output":"cpu"},"stages":[`+
		`{"device":"cuda:0","from":0,"to":6,"layers":"embedding, blocks 0-4","bytes":9,"budget":10},`+
		`{"device":"cpu","from":6,"to":7,"layers":"output head","bytes":1,"budget":0}],"fits":true}`, string(b))
	f, err := placement.Parse("p.json", b)
	require.NoError(t, err)
	runs, err := f.Runs(model, nil)
	require.NoError(t, err)
	assert.Equal(t, []run{{"cuda:0", 0, 6}, {"cpu", 6, 7}}, runs)

	b, err = json.Marshal(placement.Layers(nil))
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(b))
	_, err = json.Marshal(placement.Layers{{"\xff", "cpu"}})
	assert.Error(t, err)
}

func TestLayersOfRefuses(t *testing.T) {
	for want, runs := range map[string][]run{
		"the runs end at entry 0 of 7":         nil,
		"the runs end at entry 6 of 7":         {{"cpu", 0, 6}},
		"run 0 is entries 1 to 7":              {{"cpu", 1, 7}},
		"run 0 is entries 0 to 8":              {{"cpu", 0, 8}},
		"run 1 is entries 2 to 2":              {{"cpu", 0, 2}, {"cpu", 2, 2}},
		"run 1 is entries 1 to 7":              {{"cpu", 0, 2}, {"cpu", 1, 7}},
		"run 0: the device's name is empty":    {{"", 0, 7}},
		`run 0: "cpu, cuda:0" is not one devi`: {{"cpu, cuda:0", 0, 7}},
	} {
		_, err := placement.LayersOf(model, runs)
		assert.ErrorContains(t, err, want)
	}
	_, err := placement.LayersOf(nil, nil)
	assert.Error(t, err)
	_, err = placement.LayersOf([]string{"block 0", "\xff"}, []run{{"cpu", 0, 2}})
	assert.ErrorContains(t, err, "can't be told")
}

// What LayersOf writes, Runs reads back, for random cuts of random models.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		layers := []string{"embedding"}
		for i := range r.IntN(40) {
			layers = append(layers, fmt.Sprint("block ", i))
			if r.IntN(8) == 0 {
				layers = append(layers, fmt.Sprint("adapter ", i))
			}
		}
		layers = append(layers, "output head")
		if r.IntN(4) == 0 {
			for i := range layers {
				layers[i] = strings.ReplaceAll(layers[i], "block", "layer")
			}
		}
		var runs []run
		for from := 0; from < len(layers); {
			to := from + 1 + r.IntN(len(layers)-from)
			runs = append(runs, run{[]string{"cpu", "cuda:0", "cuda:1=80%"}[r.IntN(3)], from, to})
			from = to
		}
		requireRoundTrip(t, layers, runs)
	}
}

// requireRoundTrip writes runs and reads them back: without stages with equal
// neighbours taken together, with them as they were.
func requireRoundTrip(t *testing.T, layers []string, runs []run) {
	t.Helper()
	l, err := placement.LayersOf(layers, runs)
	require.NoError(t, err)
	var joined []run
	var stages []placement.Stage
	for _, r := range runs {
		stages = append(stages, placement.Stage{Device: r.Device, From: r.From, To: r.To})
		if last := len(joined) - 1; last >= 0 && joined[last].Device == r.Device {
			joined[last].To = r.To
		} else {
			joined = append(joined, r)
		}
	}
	for _, c := range []struct {
		document map[string]any
		want     []run
	}{
		{map[string]any{"version": 1, "layers": l}, joined},
		{map[string]any{"version": 1, "layers": l, "stages": stages}, runs},
	} {
		b, err := json.Marshal(c.document)
		require.NoError(t, err)
		f, err := placement.Parse("p.json", b)
		require.NoError(t, err)
		got, err := f.Runs(layers, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}
