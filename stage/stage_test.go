package stage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	_ "github.com/leat-dev/leat/kernels/cpu"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDescribe(t *testing.T) {
	name := func(names ...string) (layers []stage.Layer) {
		for _, n := range names {
			layers = append(layers, &stagetest.Layer{Called: n})
		}
		return layers
	}
	assert.Equal(t, "embedding, blocks 0-1", stage.Describe(name("embedding", "block 0", "block 1")))
	assert.Equal(t, "block 7, output head", stage.Describe(name("block 7", "output head")))
	assert.Equal(t, "blocks 3-4, block 6", stage.Describe(name("block 3", "block 4", "block 6")))
	assert.Equal(t, "block x", stage.Describe(name("block x")))
	assert.Empty(t, stage.Describe(nil))
}

func TestLinkIsBounded(t *testing.T) {
	l := stage.NewLink(1)
	b := stage.NewBatch(0, stage.Config{MaxRows: 1, MaxOutputs: 1, MaxTables: 1})
	require.NoError(t, l.Send(t.Context(), b))
	assert.Equal(t, 1, l.Len())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, l.Send(ended, b), context.Canceled, "a full link blocks under the caller's context")

	l.Close()
	got, err := l.Recv(t.Context())
	require.NoError(t, err, "what was sent before Close still comes out")
	assert.Same(t, b, got)
	_, err = l.Recv(t.Context())
	assert.ErrorIs(t, err, stage.ErrClosed)

	_, err = stage.NewLink(0).Recv(ended)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestErrorNamesThePlace(t *testing.T) {
	cause := errors.New("out of order")
	err := error(&stage.Error{Stage: 2, Layers: "blocks 4-5", Layer: "block 5", Device: "cpu:1", Err: cause})
	assert.EqualError(t, err, "stage 2 (blocks 4-5) on cpu:1, in block 5: out of order")
	assert.ErrorIs(t, err, cause)
}

func TestLoadFreesWhatItTookWhenALayerFails(t *testing.T) {
	var set device.Set
	places, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	first := &stagetest.Layer{Called: "block 0", Width: 4}
	layers := []stage.Layer{first, &stagetest.Layer{Called: "block 1", Width: 4, LoadErr: errors.New("no such tensor")}}
	config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 1}

	_, err = stage.Load(t.Context(), stage.Position{Number: 1, Last: true}, d, layers, config, nil)
	var at *stage.Error
	require.ErrorAs(t, err, &at)
	assert.Equal(t, "block 1", at.Layer)
	assert.Equal(t, 1, at.Stage)
	assert.ErrorContains(t, err, "no such tensor")
	assert.Equal(t, 1, first.Closed)

	_, err = stage.Load(t.Context(), stage.Position{Last: true}, d, []stage.Layer{&stagetest.Layer{Called: "block 0", Width: 4, LoadPanic: "boom"}}, config, nil)
	require.ErrorAs(t, err, &at)
	assert.ErrorContains(t, err, "panic: boom")

	assert.Zero(t, d.Allocated())
	assert.NoError(t, set.Close())
}

func TestOverheadIsWhatIsAllocated(t *testing.T) {
	var set device.Set
	places, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	config := stage.Config{MaxRows: 64, MaxOutputs: 8, MaxTables: 32, InFlight: 3}
	for i := range 8 {
		n := i/2 + 1
		config.Input = i % 2 * 70
		var layers []stage.Layer
		for range n {
			layers = append(layers, &stagetest.Layer{Called: "layer", Width: 100, Scratch: 50, Quantized: 90})
		}
		s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, layers, config, nil)
		require.NoError(t, err)
		overhead, err := config.Overheads(layers).On(d.Info(), false)
		require.NoError(t, err)
		assert.Equal(t, overhead(0, n), d.Allocated(), "%d layers", n)
		require.NoError(t, s.Close())
		assert.Zero(t, d.Allocated())
	}
	assert.NoError(t, set.Close())
}
