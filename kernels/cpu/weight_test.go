package cpu

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestWeightTakesWhatWasSaidBeforehand(t *testing.T) {
	r := newRig(t, 0)
	ops := backend{}
	for _, typ := range allTypes {
		for _, c := range []struct{ rows, cols int }{{1, 32}, {1, 96}, {2, 32}, {16, 64}, {17, 320}, {100, 512}} {
			elems, _ := typ.Block()
			c.cols *= max(1, elems/32) // whole superblocks
			m, _ := matrix(newRand(5), typ, c.rows, c.cols)
			want, err := ops.WeightBytes(typ, c.rows, c.cols)
			require.NoError(t, err)
			before := r.q.Device().Allocated()
			w, err := r.q.Pack(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, want, r.q.Device().Allocated()-before, "%v [%d, %d]", typ, c.rows, c.cols)
			require.Equal(t, want, w.Bytes())
			require.Equal(t, []any{typ, c.rows, c.cols}, []any{w.Type(), w.Rows(), w.Cols()})
			require.NoError(t, w.Free())
			require.NoError(t, w.Free(), "a second time")
			require.Equal(t, before, r.q.Device().Allocated())
		}
	}
	size, err := ops.WeightBytes(kernels.BF16, 1, 80)
	require.NoError(t, err)
	require.EqualValues(t, 320, size, "a vector is a plain row of F32")
}

func TestPackRefuses(t *testing.T) {
	r := newRig(t, 0)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	data := make([]byte, 4096)
	for _, c := range []struct {
		ctx   context.Context
		m     kernels.Matrix
		wants []string
	}{
		{t.Context(), kernels.Matrix{Name: "blk.0.ffn", Type: kernels.F32, Rows: 16, Cols: 65, Data: data}, []string{"blk.0.ffn", "[16, 65]", "4096"}},
		{t.Context(), kernels.Matrix{Name: "blk.1.ffn", Type: kernels.F32, Rows: 16, Cols: 63, Data: data}, []string{"blk.1.ffn", "4096"}},
		{t.Context(), kernels.Matrix{Name: "e", Type: kernels.F32, Rows: 0, Cols: 64, Data: nil}, []string{"[0, 64]"}},
		{t.Context(), kernels.Matrix{Name: "e", Type: kernels.F32, Rows: 64, Cols: -1, Data: nil}, []string{"[64, -1]"}},
		{t.Context(), kernels.Matrix{Name: "o", Type: kernels.Q8_0, Rows: 4, Cols: 33, Data: data}, []string{"33", "32"}},
		{t.Context(), kernels.Matrix{Name: "half", Type: kernels.Q4_K, Rows: 4, Cols: 384, Data: data}, []string{"half", "384", "256"}},
		{t.Context(), kernels.Matrix{Name: "short", Type: kernels.Q6_K, Rows: 4, Cols: 256, Data: data[:839]}, []string{"short", "4 rows of 210 bytes", "839"}},
		{t.Context(), kernels.Matrix{Name: "i", Type: kernels.I32, Rows: 4, Cols: 32, Data: data}, []string{"I32"}},
		{t.Context(), kernels.Matrix{Name: "big", Type: kernels.F32, Rows: math.MaxInt, Cols: math.MaxInt / 2, Data: data}, []string{"big"}},
		{t.Context(), kernels.Matrix{Name: "long", Type: kernels.F16, Rows: 1, Cols: math.MaxInt, Data: data}, []string{"long"}},
		{cancelled, kernels.Matrix{Name: "late", Type: kernels.F32, Rows: 16, Cols: 64, Data: data}, []string{"late", context.Canceled.Error()}},
	} {
		before := r.q.Device().Allocated()
		_, err := r.q.Pack(c.ctx, c.m)
		require.Error(t, err)
		for _, want := range c.wants {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, before, r.q.Device().Allocated(), "nothing may stay behind: %v", err)
	}
	_, err := r.q.Pack(cancelled, kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: 1, Data: data[:4]})
	require.ErrorIs(t, err, context.Canceled)
}

// One queue packs while others compute on the same device.
func TestPackBesideComputation(t *testing.T) {
	r := newRig(t, 0)
	s := newShared(newRand(6), 20, 512, allTypes, 100, 70, 33, 300, 18, 40, 50)
	want := s.on(r, 20)
	var all sync.WaitGroup
	for range 2 {
		other := rigOn(t, r.q.Device())
		all.Go(func() {
			for range 5 {
				m, _ := matrix(newRand(7), kernels.Q8_0, 300, 512)
				w, err := other.q.Pack(t.Context(), m)
				if err != nil || w.Free() != nil {
					t.Errorf("packing: %v", err)
				}
			}
		})
	}
	for range 5 {
		for i, got := range s.on(r, 20) {
			sameBits(t, want[i], got, "%v", s.parts[i].Type)
		}
	}
	all.Wait()
}
