package stage_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/stage"
)

// shaped is a layer that is a name and a shape.
type shaped struct {
	stage.Layer
	name  string
	shape stage.Shape
}

func (l shaped) Name() string       { return l.name }
func (l shaped) Shape() stage.Shape { return l.shape }

func TestLayersThatDoNotMakeAModel(t *testing.T) {
	a := shaped{name: "a", shape: stage.Shape{Input: 4, Width: 6}}
	b := shaped{name: "b", shape: stage.Shape{Input: 6, Width: 2}}
	anything := shaped{name: "any", shape: stage.Shape{Width: 6}}
	require.NoError(t, stage.Check([]stage.Layer{a, b}, 4))
	require.NoError(t, stage.Check([]stage.Layer{a, anything, b}, 4))
	require.NoError(t, stage.Check(nil, 0))
	for want, c := range map[string]struct {
		layers []stage.Layer
		input  int
	}{
		`layers 0 and 2 are both called "a"`:                       {[]stage.Layer{a, b, a}, 4},
		`layer 1 has no name`:                                      {[]stage.Layer{a, shaped{shape: b.shape}}, 4},
		"a reads rows of 4 numbers, and the input has rows of 5":   {[]stage.Layer{a, b}, 5},
		"a reads rows of 4 numbers, and the input has rows of 0":   {[]stage.Layer{a, b}, 0},
		"b reads rows of 6 numbers, and the input has rows of 4":   {[]stage.Layer{b, a}, 4},
		"a reads rows of 4 numbers, and any writes rows of 6":      {[]stage.Layer{anything, a}, 4},
		"c: a row of its output has -1 numbers":                    {[]stage.Layer{shaped{name: "c", shape: stage.Shape{Width: -1}}}, 4},
		"c: the workspace for a row has 1152921504606846976 numb":  {[]stage.Layer{shaped{name: "c", shape: stage.Shape{Scratch: 1 << 60}}}, 4},
		"c: the widest row of a product has 9223372036854775807 n": {[]stage.Layer{shaped{name: "c", shape: stage.Shape{Quantized: math.MaxInt}}}, 4},
		"c: a row of its input has -9223372036854775808 numbers":   {[]stage.Layer{shaped{name: "c", shape: stage.Shape{Input: math.MinInt}}}, 4},
	} {
		assert.ErrorContains(t, stage.Check(c.layers, c.input), want)
	}
}

// Sizes that no memory has are errors, of a plan and of a stage that is loaded without
// one, and never overflow.
func TestSizesThatNoMemoryHas(t *testing.T) {
	var set device.Set
	defer set.Close()
	d, err := set.Open("cpu:0")
	require.NoError(t, err)
	plain := stage.Config{MaxRows: 8, MaxOutputs: 8, InFlight: 2}
	large := stage.Config{MaxRows: 1 << 20, MaxOutputs: 1 << 20, InFlight: 1 << 20}
	for want, c := range map[string]struct {
		config stage.Config
		layer  stagetest.Layer
	}{
		"block 0: a row of its output has 1152921504606846976 numbers":         {plain, stagetest.Layer{Width: 1 << 60}},
		"block 0: the workspace for a row has 4611686018427387904 numbers":     {plain, stagetest.Layer{Width: 1, Scratch: 1 << 62}},
		"block 0: 1048576 batches of 1048576 rows of 2147483648 numbers, with": {large, stagetest.Layer{Width: 1 << 31}},
		"page tables of -1 words":                            {stage.Config{MaxRows: 8, MaxTables: -1}, stagetest.Layer{Width: 1}},
		"2 batches of 8 rows of 1152921504606846976 numbers": {stage.Config{MaxRows: 8, InFlight: 2, Input: 1 << 60}, stagetest.Layer{Width: 1}},
	} {
		c.layer.Called = "block 0"
		layers := []stage.Layer{&c.layer}
		_, err := c.config.Overheads(layers).On(d.Info(), false)
		assert.ErrorContains(t, err, want)
		_, err = stage.Load(t.Context(), stage.Position{Last: true}, d, layers, c.config, nil)
		assert.ErrorContains(t, err, want)
	}
	assert.Zero(t, allocated.Bytes("cpu:0"))
}
