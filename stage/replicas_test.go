package stage_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/stage"
)

func TestServingRoutes(t *testing.T) {
	c := stage.Config{Pages: 5, MaxRows: 3}
	assert.Equal(t, stage.Config{Pages: 15, MaxRows: 3}, c.Serving(3))
	assert.Equal(t, c, c.Serving(1))
	assert.Equal(t, c, c.Serving(0), "who says nothing of routes has one")
	c.Pages = math.MaxInt / 2
	assert.Equal(t, math.MaxInt, c.Serving(3).Pages, "more than there can be, and no overflow")
}

// A batch's rows may lie in another stage's memory, as they do when they were
// written before the route was chosen.
func TestInputFromElsewhereIsCopied(t *testing.T) {
	var set device.Set
	places, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 1, Input: 2}
	layer := &stagetest.Rows{Called: "block 0", Width: 2, Row: func(out, in []float32) error {
		out[0], out[1] = in[1], in[0]
		return nil
	}}
	s, err := stage.Load(t.Context(), stage.Position{Last: true, Replicas: 2, Routes: 2}, d, []stage.Layer{layer}, config, nil)
	require.NoError(t, err)
	in, out := stage.NewLink(1), stage.NewLink(1)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	pass := func(input []float32, rows int) (*stage.Batch, error) {
		b := stage.NewBatch(0, config)
		b.Input = input
		for range rows {
			b.Header.Append(0, 0, 0, true)
		}
		b.Seal()
		require.NoError(t, in.Send(t.Context(), b))
		b, err := out.Recv(t.Context())
		require.NoError(t, err)
		return b, b.Wait(t.Context())
	}
	b, err := pass([]float32{1, 2, 3, 4}, 2)
	require.NoError(t, err)
	assert.Equal(t, []float32{2, 1, 4, 3}, b.Values())
	own := s.Input(0)
	copy(own, []float32{5, 6})
	b, err = pass(own, 1)
	require.NoError(t, err)
	assert.Equal(t, []float32{6, 5}, b.Values())

	for _, input := range [][]float32{nil, {1, 2, 3}} {
		_, err = pass(input, 2)
		var at *stage.Error
		require.ErrorAs(t, err, &at)
		assert.ErrorContains(t, err, "a batch of 2 rows has")
	}
	_, err = pass(make([]float32, 10), 5)
	assert.ErrorContains(t, err, "has memory for 8", "more rows than a batch may have")
	_, err = pass(nil, 0)
	assert.NoError(t, err)

	in.Close()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
	require.NoError(t, set.Close())
}
