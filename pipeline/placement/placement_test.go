package placement_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/placement"
)

var (
	model = strings.Split("embedding,block 0,block 1,block 2,block 3,block 4,output head", ",")
	mlp   = strings.Split("wide,narrow,wide again,softmax", ",")
)

type run = placement.Run

// readable are placements of the model, unless layers says otherwise.
var readable = []struct {
	says   string
	layers []string
	file   string
	want   []run
}{
	{"everything in one place", nil, `{"version":1,"layers":{"*":"cpu"}}`,
		[]run{{"cpu", 0, 7}}},
	{"each part by its key, in any order", nil,
		`{"layers":{"output":"cpu","*":"cuda:0","1-2":"rocm:0","0":"cpu","embedding":"cpu"},"version":1}`,
		[]run{{"cpu", 0, 2}, {"rocm:0", 2, 4}, {"cuda:0", 4, 6}, {"cpu", 6, 7}}},
	{"a device may come back", nil,
		`{"version":1,"layers":{"embedding":"cpu","0-1":"rocm:0","2-4":"cpu","output":"rocm:0"}}`,
		[]run{{"cpu", 0, 1}, {"rocm:0", 1, 3}, {"cpu", 3, 6}, {"rocm:0", 6, 7}}},
	{"neighbours on one device are one run, whatever the keys", nil,
		`{"version":1,"layers":{"embedding":"cpu","0":"cpu","1-3":"cpu","4-4":"cpu","output":"cpu"}}`,
		[]run{{"cpu", 0, 7}}},
	{"a budget and a speed are part of the string", nil,
		`{"version":1,"layers":{"0":"cpu=1GiB","1":"cpu=1GiB","2":"cpu=1GiB@3","*":"cpu"}}`,
		[]run{{"cpu", 0, 1}, {"cpu=1GiB", 1, 3}, {"cpu=1GiB@3", 3, 4}, {"cpu", 4, 7}}},
	{"replicas are one string", nil, `{"version":1,"layers":{"*":"cuda:0|cuda:1=50%"}}`,
		[]run{{"cuda:0|cuda:1=50%", 0, 7}}},
	{`"*" may stand for nothing`, nil,
		`{"version":1,"layers":{"embedding":"cpu","0-4":"cuda:0","output":"cpu","*":"rocm:0"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 6}, {"cpu", 6, 7}}},
	{"blocks and the head by their whole names", nil,
		`{"version":1,"layers":{"block 3":"cuda:0","output head":"cuda:0","*":"cpu"}}`,
		[]run{{"cpu", 0, 4}, {"cuda:0", 4, 5}, {"cpu", 5, 6}, {"cuda:0", 6, 7}}},
	{"a fallback, and escapes in strings", nil,
		`{"version":1.0,"layers":{"\u0030":"cuda:\u0030","*":"cpu"},"fallback":"cpu"}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 2}, {"cpu", 2, 7}}},
	{"a saved plan", nil,
		`{"version":1,"layers":{"embedding":"cpu:0-1","0-4":"cuda:0","output":"cpu:0-1"},"stages":[
		  {"device":"cpu:0-1","from":0,"to":1,"layers":"embedding","bytes":1234,"budget":0},
		  {"device":"cuda:0","from":1,"to":6,"layers":"blocks 0-4","bytes":9007199254740991,"budget":1e9},
		  {"device":"cpu:0-1","from":6,"to":7,"layers":"output head","bytes":0,"budget":0}],"fits":true}`,
		[]run{{"cpu:0-1", 0, 1}, {"cuda:0", 1, 6}, {"cpu:0-1", 6, 7}}},
	{"stages that divide a device stay divided", nil,
		`{"version":1,"layers":{"*":"cpu:0"},"stages":[{"device":"cpu:0","from":0,"to":3},{"device":"cpu:0=1GiB","from":3,"to":7}],"fits":false}`,
		[]run{{"cpu:0", 0, 3}, {"cpu:0", 3, 7}}},
	{"a caller's layers by name", mlp,
		`{"version":1,"layers":{"wide":"cpu","narrow":"cuda:0","wide again":"cuda:0","softmax":"cpu"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 3}, {"cpu", 3, 4}}},
	{"a caller's layers by number", mlp, `{"version":1,"layers":{"0":"cpu","1-3":"cuda:0"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 4}}},
	{"a caller's layers by both", mlp, `{"version":1,"layers":{"0":"cpu","softmax":"cpu","1-2":"cuda:0"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 3}, {"cpu", 3, 4}}},
	{"layers of one name by number", []string{"linear", "linear", "linear"}, `{"version":1,"layers":{"1":"cuda:0","*":"cpu"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 2}, {"cpu", 2, 3}}},
	{"layers that are called by their own numbers", []string{"0", "1"}, `{"version":1,"layers":{"1":"cuda:0","0":"cpu"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 2}}},
	{"numbers are blocks as soon as there is one", []string{"stem", "block 0", "pool"}, `{"version":1,"layers":{"0":"cuda:0","*":"cpu"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 2}, {"cpu", 2, 3}}},
	{"an embedding without blocks is a layer like another", []string{"embedding", "head"}, `{"version":1,"layers":{"embedding":"cpu","1":"cuda:0"}}`,
		[]run{{"cpu", 0, 1}, {"cuda:0", 1, 2}}},
	{"names in any script", []string{"層 1", "ωστ"}, `{"version":1,"layers":{"層 1":"cpu","ωστ":"cpu"}}`,
		[]run{{"cpu", 0, 2}}},
}

func TestRuns(t *testing.T) {
	for _, c := range readable {
		layers := c.layers
		if layers == nil {
			layers = model
		}
		f, err := placement.Parse("f.json", []byte(c.file))
		require.NoError(t, err, c.says)
		runs, err := f.Runs(layers, nil)
		require.NoError(t, err, c.says)
		assert.Equal(t, c.want, runs, c.says)
	}
}

func TestFallback(t *testing.T) {
	for fallback, file := range map[string]string{
		"":    `{"version":1,"layers":{"*":"cpu"}}`,
		"cpu": `{"version":1,"layers":{"*":"cpu"},"fallback":"cpu"}`,
	} {
		f, err := placement.Parse("f.json", []byte(file))
		require.NoError(t, err)
		assert.Equal(t, fallback, f.Fallback())
	}
}

// An error about a device gets the place that first names it.
func TestAt(t *testing.T) {
	f, err := placement.Parse("f.json", []byte(`{"version":1,"layers":{"0":"cpu","1-2":"rocm:0","3":"rocm:0","*":"cuda:0"}}`))
	require.NoError(t, err)
	why := errors.New("no such library")
	assert.EqualError(t, f.At("rocm:0", why), `f.json: $.layers["1-2"]: no such library`)
	assert.EqualError(t, f.At("cuda:0", why), `f.json: $.layers["*"]: no such library`)
	assert.EqualError(t, f.At("metal:0", why), `f.json: $.layers: no such library`)
	assert.ErrorIs(t, f.At("cpu", why), why)
	var e *placement.Error
	require.ErrorAs(t, f.At("cpu", why), &e)
	assert.Equal(t, placement.Error{File: "f.json", Path: `$.layers["0"]`, Err: why}, *e)
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	_, err := placement.ReadFile(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, path)

	require.NoError(t, os.WriteFile(path, []byte(`{"version":1,"layers":{"*":"cpu"}}`), 0o600))
	f, err := placement.ReadFile(path)
	require.NoError(t, err)
	runs, err := f.Runs(model, nil)
	require.NoError(t, err)
	assert.Equal(t, []run{{"cpu", 0, 7}}, runs)

	file := []byte(`{"version":1,"layers":{"*":"cpu"}}` + strings.Repeat(" ", placement.MaxBytes))
	require.NoError(t, os.WriteFile(path, file[:placement.MaxBytes], 0o600))
	_, err = placement.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, file[:placement.MaxBytes+1], 0o600))
	_, err = placement.ReadFile(path)
	assert.EqualError(t, err, path+": $: the file is larger than 1048576 bytes: is it a placement?")
	_, err = placement.ReadFile(t.TempDir())
	assert.Error(t, err)
}
