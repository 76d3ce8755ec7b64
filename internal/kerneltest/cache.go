package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// StoreKV tests caches and what they hold.
func StoreKV(t *testing.T, b Backend) {
	b.run(t,
		part{"Rounds", storeRounds},
		part{"BaseMovesPages", baseMovesPages},
		part{"WrongRowsTouchNothingElse", wrongRowsTouchNothingElse},
		part{"TakesWhatWasSaidBeforehand", cacheTakesWhatWasSaid})
}

// isStored compares a cache's memory with what a dialogue stored.
func (d *Dialogue) isStored(t *testing.T, b Backend, mem []byte, tables [][]int32) {
	t.Helper()
	for s := range d.lengths {
		for head := range d.spec.Heads {
			keys, values := d.head(d.K[s], head), d.head(d.V[s], head)
			for p := range keys {
				k, v := b.Token(d.spec, mem, d.base+int(tables[s][p/kernels.PageTokens]), head, p%kernels.PageTokens)
				all := append(k, v...)
				require.Len(t, all, 2*d.spec.HeadDim)
				for i, w := range append(stored(d.spec.Type, keys[p]), stored(d.spec.Type, values[p])...) {
					if got := all[i]; got != w {
						t.Fatalf("sequence %d, position %d, head %d: number %d of the key and the value is %v, it must be %v", s, p, head, i, got, w)
					}
				}
			}
		}
	}
}

// Keys of all magnitudes, and a value of zeros.
func storeRounds(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		d := NewDialogue(NewRand(14), typ, 3, 1, 96, 70)
		for i := range d.K[0] {
			d.K[0][i] *= float32(math.Exp2(float64(i/96%40 - 25)))
		}
		clear(d.V[0][:96])
		_, c, tables := d.On(r, 500, NewRand(15))
		d.isStored(t, b, r.Cached(c), tables)
	}
}

// A base is added to the page numbers of the header, and to nothing else.
func baseMovesPages(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		good := NewLayer(r, typ, narrow)
		on := func(base int, pages ...int32) ([]float32, []byte) {
			l := good.Clone()
			spec := l.Cache.Spec()
			spec.Pages = 7
			l.Cache = r.Cache(spec)
			copy(l.Header.Pages, pages)
			l.Rows = r.Rows(l.Header)
			l.Rows.Base = base
			r.Run(func(q kernels.Queue) { l.Ops()["StoreKV"](q); l.Ops()["Attention"](q) })
			return r.Read(l.Y), r.Cached(l.Cache)
		}
		y, mem := on(0, 6, 4)
		based, basedMem := on(4, 2, 0)
		require.Equal(t, y, based)
		require.Equal(t, mem, basedMem)
	}
}

// A row that is wrong leaves the memory of others alone.
func wrongRowsTouchNothingElse(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		l := NewLayer(r, typ, narrow)
		r.Run(l.Ops()["StoreKV"])
		right := r.Cached(l.Cache)
		l.Header.Positions[4], l.Header.Tables[9], l.Header.Positions[39] = -1, 77, 1<<30
		l.Rows = r.Rows(l.Header)
		require.Error(t, r.Try(l.Ops()["StoreKV"]))
		require.Equal(t, right, r.Cached(l.Cache), "the other rows are stored where they were")
		r.Read(l.K) // looks at the margins
		l.Header.Tokens[6] = 1 << 30
		l.Rows = r.Rows(l.Header)
		require.Error(t, r.Try(l.Ops()["Embed"]))
		r.Read(l.X)
	}
}

func cacheTakesWhatWasSaid(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, c := range []struct {
		spec  kernels.CacheSpec
		least int64
	}{
		{kernels.CacheSpec{Type: kernels.F32, Heads: 2, HeadDim: 64, Pages: 3}, 2 * 3 * 32 * 64 * 2 * 4},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 80, Pages: 5}, 5 * 32 * 80 * 2 * 2},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 9, Pages: 1}, 32 * 9 * 2 * 2},
		{kernels.CacheSpec{Type: kernels.Q8_0, Heads: 4, HeadDim: 128, Pages: 2}, 4 * 2 * 32 * 128 / 32 * 34 * 2},
	} {
		said, err := r.ops.CacheBytes(c.spec)
		require.NoError(t, err)
		if c.spec.HeadDim%16 == 0 { // nothing has to be filled up
			require.Equal(t, c.least, said)
		}
		require.GreaterOrEqual(t, said, c.least)
		before := r.Q.Device().Allocated()
		made, err := r.Q.NewCache(c.spec)
		require.NoError(t, err)
		require.Equal(t, said, r.Q.Device().Allocated()-before)
		require.Equal(t, said, made.Bytes())
		require.Equal(t, c.spec, made.Spec())
		require.NoError(t, made.Free())
		require.Equal(t, before, r.Q.Device().Allocated())
	}
	for _, s := range []kernels.CacheSpec{
		{Type: kernels.Q4_0, Heads: 1, HeadDim: 32, Pages: 1},
		{Type: kernels.Q8_0, Heads: 1, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 0, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 1, HeadDim: math.MaxInt, Pages: 1},
		{Type: kernels.F32, Heads: math.MaxInt, HeadDim: 64, Pages: 1},
		{Type: kernels.F32, Heads: 1 << 10, HeadDim: 64, Pages: math.MaxInt},
		{Type: kernels.F32, Heads: 1 << 30, HeadDim: 64, Pages: 1 << 30},
		{Type: kernels.F32, Heads: 1 << 15, HeadDim: 1 << 23, Pages: 1 << 30},
		{Type: kernels.F32, Heads: 1 << 10, HeadDim: 1 << 10, Pages: 1 << 30}, // more than the machine has
	} {
		_, err := r.Q.NewCache(s)
		require.Error(t, err, "%+v", s)
	}
}
