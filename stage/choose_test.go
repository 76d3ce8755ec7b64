package stage_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// What is wanted of the results can be combined: it is all computed on the device.
func TestWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "s", &adds{width: 4, unlikely: 9})
		inf := float32(math.Inf(-1))
		for _, want := range []stage.Want{{}, {Values: true}, {Best: true}, {Top: 2}, {Top: 2, Best: true}, {Top: 2, Best: true, Values: true}} {
			b := r.batch(0, 2, 9)
			b.Want = want
			r.submit(b)
			b, err := r.recv()
			require.NoError(t, err)
			if want.Best {
				assert.Equal(t, []int32{1, -1}, b.Chosen())
			} else {
				assert.Nil(t, b.Chosen())
			}
			columns, values := b.Top()
			if want.Top > 0 {
				assert.Equal(t, []int32{1, 0, -1, -1}, columns)
				assert.Equal(t, []float32{4, 3, inf, inf}, values)
			} else {
				assert.Nil(t, columns)
				assert.Nil(t, values)
			}
			if want == (stage.Want{}) || want.Values {
				assert.Equal(t, []float32{3, 4, 1, 2}, b.Values()[:4])
			} else {
				assert.Nil(t, b.Values())
			}
		}
		for _, top := range []int{-1, 3, math.MaxInt} {
			b := r.batch(0, 1, 2, 3, 4)
			b.Want.Top = top
			r.submit(b)
			_, err := r.recv()
			assert.ErrorContains(t, err, fmt.Sprintf("wants the %d largest", top))
		}
		r.close()
	})
}

// The CPU's ops choose from the results of a CPU stage, into memory of the slot's
// own: the batches of other slots don't change it.
func TestTheCPUChoosesToo(t *testing.T) {
	nan := float32(math.NaN())
	rows := [][]float32{{3, 9, nan, 9, -1}, {nan, nan, nan, nan, nan}, {0, 0, 0, 0, 5}}
	layer := &stagetest.Rows{Called: "block 0", Width: 5, Row: func(out, in []float32) error {
		copy(out, rows[int(in[0])])
		return nil
	}}
	var set device.Set
	places, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	config := stage.Config{MaxRows: 3, MaxOutputs: 3, InFlight: 2, Input: 1, MaxTop: 3}
	s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, []stage.Layer{layer}, config, nil)
	require.NoError(t, err)
	in, out := stage.NewLink(2), stage.NewLink(2)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	pass := func(slot int, want stage.Want, rows ...float32) *stage.Batch {
		b := stage.NewBatch(slot, config)
		b.Input, b.Want = s.Input(slot), want
		for range copy(b.Input, rows) {
			b.Header.Append(0, 0, 0, true)
		}
		b.Seal()
		require.NoError(t, in.Send(t.Context(), b))
		b, err := out.Recv(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Wait(t.Context()))
		return b
	}
	first := pass(0, stage.Want{Best: true, Top: 3}, 0, 1, 2)
	second := pass(1, stage.Want{Best: true, Top: 3, Values: true}, 2)
	inf := float32(math.Inf(-1))
	assert.Equal(t, []int32{1, -1, 4}, first.Chosen())
	columns, values := first.Top()
	assert.Equal(t, []int32{1, 3, 0, -1, -1, -1, 4, 0, 1}, columns)
	assert.Equal(t, []float32{9, 9, 3, inf, inf, inf, 5, 0, 0}, values)
	assert.Nil(t, first.Values())
	assert.Equal(t, []int32{4}, second.Chosen())
	assert.Equal(t, rows[2], second.Values())

	in.Close()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
	config.MaxTop = kernels.MostTopK + 1
	_, err = stage.Load(t.Context(), stage.Position{Last: true}, d, []stage.Layer{layer}, config, nil)
	assert.ErrorContains(t, err, "they may want up to 256")
	require.NoError(t, set.Close())
}

// Where a device has no op for it, all values come out, and the sender can choose.
func TestTopWithoutAnOp(t *testing.T) {
	config := stage.Config{MaxRows: 1, MaxOutputs: 1, InFlight: 1, Input: 3, MaxTop: 2}
	s, err := stage.Load(t.Context(), stage.Position{Last: true}, new(far), []stage.Layer{negate{3}}, config, nil)
	require.NoError(t, err)
	in, out := stage.NewLink(1), stage.NewLink(1)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	b := stage.NewBatch(0, config)
	b.Input, b.Want.Top = s.Input(0), 2
	copy(b.Input, []float32{1, 2, 3})
	b.Header.Append(0, 0, 0, true)
	b.Seal()
	require.NoError(t, in.Send(t.Context(), b))
	b, err = out.Recv(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.Wait(t.Context()))
	columns, values := b.Top()
	assert.Nil(t, columns)
	assert.Nil(t, values)
	assert.Equal(t, []float32{-1, -2, -3}, b.Values())
	in.Close()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
}
