package gpu

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestWeightTakesWhatWasSaidBeforehand(t *testing.T) {
	r := onGPU(t)
	for _, typ := range allTypes {
		elems, _ := typ.Block()
		for _, c := range []struct{ rows, cols int }{{1, 32}, {1, 96}, {2, 32}, {16, 64}, {33, 320}, {100, 512}} {
			cols := ceil(c.cols, elems) * elems
			m := matrix(newRand(5), typ, c.rows, cols)
			want, err := backend{}.WeightBytes(typ, c.rows, cols)
			require.NoError(t, err)
			before := r.q.Device().Allocated()
			w, err := r.q.Pack(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, want, r.q.Device().Allocated()-before, "%v [%d, %d]", typ, c.rows, cols)
			require.Equal(t, want, w.Bytes())
			require.Equal(t, []any{typ, c.rows, cols}, []any{w.Type(), w.Rows(), w.Cols()})
			require.Equal(t, packAll(t, m), r.bytes(w.(*weight).buf, w.Bytes()))
			require.NoError(t, w.Free())
			require.NoError(t, w.Free(), "a second time")
			require.Equal(t, before, r.q.Device().Allocated())
		}
	}
}

// Weights of several pieces arrive whole, one after another through the same
// memory.
func TestPackInPieces(t *testing.T) {
	r := onGPU(t)
	for _, c := range []struct {
		typ        kernels.Type
		rows, cols int
	}{{kernels.F32, 100, 32000}, {kernels.Q8_0, 1000, 20000 / 32 * 32}, {kernels.F16, 1, 3 << 20}} {
		m := kernels.Matrix{Name: "w", Type: c.typ, Rows: c.rows, Cols: c.cols}
		row, err := c.typ.RowBytes(c.cols)
		require.NoError(t, err)
		m.Data = make([]byte, row*int64(c.rows))
		rng := newRand(62)
		for i := range m.Data {
			m.Data[i] = byte(rng.Uint32())
		}
		w, err := r.q.Pack(t.Context(), m)
		require.NoError(t, err)
		require.Greater(t, w.Bytes(), int64(2*pieceBytes))
		want := packAll(t, m)
		got := r.bytes(w.(*weight).buf, w.Bytes())
		require.NoError(t, w.Free())
		for i := range want {
			if want[i] != got[i] {
				require.Failf(t, "bytes differ", "%v at %d", c.typ, i)
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	r := onGPU(t)
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
}

// cutOff is a context that ends after it has been asked so many times.
type cutOff struct {
	context.Context
	asked, most int
}

func (c *cutOff) Err() error {
	if c.asked++; c.asked > c.most {
		return context.Canceled
	}
	return nil
}

// A Pack that is cancelled half-way leaves nothing, and the next one is right.
func TestPackCancelledBetweenPieces(t *testing.T) {
	r := onGPU(t)
	m := kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 64, Cols: 100_000, Data: make([]byte, 4*64*100_000)}
	before := r.q.Device().Allocated()
	_, err := r.q.Pack(&cutOff{Context: t.Context(), most: 4}, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, r.q.Device().Allocated())
	small := matrix(newRand(63), kernels.Q6_K, 40, 512)
	w := r.pack(small)
	require.Equal(t, packAll(t, small), r.bytes(w.(*weight).buf, w.Bytes()))
}

// One queue packs while others compute on the same device.
func TestPackBesideComputation(t *testing.T) {
	r := onGPU(t)
	s := newShared(newRand(6), 6, 256, allTypes, 40, 40, 33, 70, 18, 20, 20)
	want := s.on(r, 6)
	other := rigOn(t, r.q.Device())
	var all sync.WaitGroup
	all.Go(func() {
		for range 5 {
			w, err := other.q.Pack(t.Context(), matrix(newRand(7), kernels.Q8_0, 300, 512))
			if err != nil || w.Free() != nil {
				t.Errorf("packing: %v", err)
			}
		}
	})
	for range 3 {
		for i, got := range s.on(r, 6) {
			sameBits(t, want[i], got, "%v", s.weights[i].Type)
		}
	}
	all.Wait()
}
