package placement_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/placement"
)

// Any file and any names of layers: no panic, errors on one line with their
// place, runs that hold every layer once, and nothing read that the schema
// refuses.
func FuzzParse(f *testing.F) {
	for _, c := range readable {
		layers := c.layers
		if layers == nil {
			layers = model
		}
		f.Add([]byte(c.file), strings.Join(layers, "\n"))
	}
	for _, c := range malformed {
		f.Add([]byte(c.file), strings.Join(model, "\n"))
	}
	s := schema(f)
	f.Fuzz(func(t *testing.T, data []byte, names string) {
		file, err := placement.Parse("p.json", data)
		if err != nil {
			requirePlaced(t, err)
			return
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		require.NoError(t, err)
		require.NoError(t, s.Validate(document))
		layers := strings.Split(names, "\n")
		runs, err := file.Runs(layers, func(device string) string { return device[:1] })
		if err != nil {
			requirePlaced(t, err)
			return
		}
		next := 0
		for _, r := range runs {
			require.Equal(t, next, r.From)
			require.Greater(t, r.To, r.From)
			require.NotEmpty(t, r.Device)
			next = r.To
		}
		require.Equal(t, len(layers), next)
	})
}

func requirePlaced(t *testing.T, err error) {
	var at *placement.Error
	require.True(t, errors.As(err, &at))
	require.True(t, strings.HasPrefix(at.Path, "$"))
	require.NotContains(t, err.Error(), "\n")
	require.True(t, utf8.ValidString(err.Error()))
}

// Any names and any cut: what LayersOf agrees to write is read back, and is a
// placement by the schema.
func FuzzLayersOf(f *testing.F) {
	f.Add(strings.Join(model, "\n"), []byte{3, 1, 2})
	f.Add(strings.Join(mlp, "\n"), []byte{1})
	f.Add("0\n1\n*", []byte{1, 1})
	f.Add("block 0\n3\noutput\noutput head\nblock 0\nblock 1", []byte{2, 9})
	s := schema(f)
	f.Fuzz(func(t *testing.T, names string, cuts []byte) {
		layers := strings.Split(names, "\n")
		var runs []run
		for from := 0; from < len(layers); {
			to, device := len(layers), "cpu"
			if len(cuts) > 0 {
				to = min(to, from+1+int(cuts[0]>>1))
				if cuts[0]&1 == 1 {
					device = "cuda:0=50%"
				}
				cuts = cuts[1:]
			}
			runs = append(runs, run{device, from, to})
			from = to
		}
		l, err := placement.LayersOf(layers, runs)
		if err != nil {
			return
		}
		requireRoundTrip(t, layers, runs)
		b, err := json.Marshal(map[string]any{"version": 1, "layers": l})
		require.NoError(t, err)
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
		require.NoError(t, err)
		require.NoError(t, s.Validate(document))
	})
}
