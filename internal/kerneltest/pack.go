package kerneltest

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Pack tests weights on their way to the device. That they arrive whole, Embed and
// MatMul show.
func Pack(t *testing.T, b Backend) {
	b.run(t,
		part{"TakesWhatWasSaidBeforehand", weightTakesWhatWasSaid},
		part{"Refuses", packRefuses},
		part{"CancelledHalfWay", packCancelled},
		part{"BesideComputation", packBesideComputation},
		part{"OfAFileCutShortIsAnError", packOfAFileCutShort},
		part{"AsksTheOwner", packAsksTheOwner})
}

func weightTakesWhatWasSaid(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range b.types() {
		for _, c := range []struct{ rows, cols int }{{1, 32}, {1, 96}, {2, 32}, {16, 64}, {17, 320}, {33, 320}, {100, 512}, {5, 2560}} {
			cols := whole(typ, c.cols)
			m := Matrix(NewRand(5), typ, c.rows, cols)
			want, err := r.ops.WeightBytes(typ, c.rows, cols)
			require.NoError(t, err)
			before := r.Q.Device().Allocated()
			w, err := r.Q.Pack(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, want, r.Q.Device().Allocated()-before, "%v [%d, %d]", typ, c.rows, cols)
			require.Equal(t, want, w.Bytes())
			require.Equal(t, []any{typ, c.rows, cols}, []any{w.Type(), w.Rows(), w.Cols()})
			require.NoError(t, w.Free())
			require.NoError(t, w.Free(), "a second time")
			require.Equal(t, before, r.Q.Device().Allocated())
		}
	}
	size, err := r.ops.WeightBytes(kernels.BF16, 1, 80)
	require.NoError(t, err)
	require.EqualValues(t, 320, size, "a vector is a plain row of F32")
}

func packRefuses(t *testing.T, b Backend) {
	r := b.Rig(t)
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
		before := r.Q.Device().Allocated()
		_, err := r.Q.Pack(c.ctx, c.m)
		require.Error(t, err)
		for _, want := range c.wants {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, before, r.Q.Device().Allocated(), "nothing may stay behind: %v", err)
	}
	_, err := r.Q.Pack(cancelled, kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: 1, Data: data[:4]})
	require.ErrorIs(t, err, context.Canceled)
}

// cutOff is a context that ends after it has been asked so many times.
type cutOff struct {
	context.Context
	asked atomic.Int32
	most  int32
}

func (c *cutOff) Err() error {
	if c.asked.Add(1) > c.most {
		return context.Canceled
	}
	return nil
}

// A Pack that is cancelled half-way leaves nothing, and the next one is right.
func packCancelled(t *testing.T, b Backend) {
	r := b.Rig(t)
	m := kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 64, Cols: 100_000, Data: make([]byte, 4*64*100_000)}
	before := r.Q.Device().Allocated()
	_, err := r.Q.Pack(&cutOff{Context: t.Context(), most: 4}, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, r.Q.Device().Allocated())

	small := Matrix(NewRand(63), kernels.Q6_K, 40, 512)
	var tokens []int32
	for i := range small.Rows {
		tokens = append(tokens, int32(i))
	}
	var want []float32
	for _, v := range Exact(small) {
		want = append(want, float32(v))
	}
	SameBits(t, want, embed(r, r.Pack(small), tokens), "the next weight")
}

// Other queues pack while one computes on the same device.
func packBesideComputation(t *testing.T, b Backend) {
	r := b.Rig(t)
	n, k := b.fewer(20, 6), b.fewer(512, 256)
	s := newShared(NewRand(6), n, k, b.types()[:7], b.fewer(100, 40), 70, 33, b.fewer(300, 70), 18, 40, 50)
	want := s.on(r, n)
	var all sync.WaitGroup
	for range 2 {
		other := b.On(t, r.Q.Device())
		all.Go(func() {
			for range 5 {
				w, err := other.Q.Pack(t.Context(), Matrix(NewRand(7), kernels.Q8_0, 300, 512))
				if err != nil || w.Free() != nil {
					t.Errorf("packing: %v", err)
				}
			}
		})
	}
	defer all.Wait()
	for range 5 {
		for i, got := range s.on(r, n) {
			SameBits(t, want[i], got, "%v", s.weights[i].Type)
		}
	}
}

// owner has an error for use before it, or for after it.
type owner struct{ before, after error }

func (o owner) Use(use func() error) error {
	if o.before != nil {
		return o.before
	}
	if err := use(); err != nil {
		return err
	}
	return o.after
}

// What a matrix's owner says of its memory counts, also when all is packed: then the
// weight is freed.
func packAsksTheOwner(t *testing.T, b Backend) {
	r := b.Rig(t)
	m := Matrix(NewRand(9), kernels.Q8_0, 32, 64)
	want := embed(r, r.Pack(m), []int32{0, 31})
	before := r.Q.Device().Allocated()
	closed := errors.New("closed")
	for _, o := range []owner{{before: closed}, {after: closed}} {
		m.Owner = o
		_, err := r.Q.Pack(t.Context(), m)
		require.ErrorIs(t, err, closed)
		require.ErrorContains(t, err, "weight "+m.Name)
		require.Equal(t, before, r.Q.Device().Allocated())
	}
	m.Owner = owner{}
	SameBits(t, want, embed(r, r.Pack(m), []int32{0, 31}), "with an owner")
}
