package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// dialogue is some sequences with their queries, keys and values, one row a
// position.
type dialogue struct {
	spec    kernels.CacheSpec
	group   int
	scale   float32
	lengths []int
	base    int
	q, k, v [][]float32 // for each sequence
}

func newDialogue(rng *rand.Rand, typ kernels.Type, heads, group, dim int, lengths ...int) *dialogue {
	d := &dialogue{
		spec:  kernels.CacheSpec{Type: typ, Heads: heads, HeadDim: dim},
		group: group, scale: float32(1 / math.Sqrt(float64(dim))), lengths: lengths,
	}
	for _, n := range lengths {
		d.spec.Pages += ceil(n, kernels.PageTokens) + 1
		d.q = append(d.q, normals(rng, n*heads*group*dim))
		d.k = append(d.k, normals(rng, n*heads*dim))
		d.v = append(d.v, normals(rng, n*heads*dim))
	}
	return d
}

// pages deals each sequence its pages.
func (d *dialogue) pages(rng *rand.Rand) (tables [][]int32) {
	free := rng.Perm(d.spec.Pages - d.base)
	for _, n := range d.lengths {
		var table []int32
		for range ceil(n, kernels.PageTokens) {
			table, free = append(table, int32(free[0])), free[1:]
		}
		tables = append(tables, table)
	}
	return tables
}

// cache makes the dialogue's cache, full of bytes that are NaNs.
func (d *dialogue) cache(r *rig) kernels.Cache {
	r.Helper()
	c, err := r.q.NewCache(d.spec)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, c.Free()) })
	if own, ok := c.(*cache); ok {
		spoilt := make([]byte, c.Bytes())
		for i := range spoilt {
			spoilt[i] = 0xff
		}
		r.run(func(q kernels.Queue) { q.Upload(own.buf, 0, spoilt) })
	}
	return c
}

// on computes the dialogue on a rig: chunks of a sequence after another, those
// of all sequences in one batch.
func (d *dialogue) on(r *rig, chunk int, rng *rand.Rand) (out [][]float32, c kernels.Cache, tables [][]int32) {
	r.Helper()
	c, tables = d.cache(r), d.pages(rng)
	out = make([][]float32, len(d.lengths))
	for from, more := 0, true; more; from += chunk {
		more = false
		var h kernels.Header
		var q, k, v []float32
		for i, n := range d.lengths {
			to := min(from+chunk, n)
			more = more || to < n
			if from >= to {
				continue
			}
			table := h.Table(tables[i])
			for p := from; p < to; p++ {
				h.Append(0, int32(p), table, p%3 == 0)
			}
			width := d.spec.Heads * d.spec.HeadDim
			q = append(q, d.q[i][from*width*d.group:to*width*d.group]...)
			k = append(k, d.k[i][from*width:to*width]...)
			v = append(v, d.v[i][from*width:to*width]...)
		}
		rows, n, width := r.rows(&h), len(h.Tokens), d.spec.Heads*d.spec.HeadDim
		rows.Base = d.base
		tq, tk, tv := r.tensor(n, width*d.group, q), r.tensorAt(margin+1, n, width, k), r.tensor(n, width, v)
		dst := r.tensor(n, width*d.group, nil)
		r.run(func(q kernels.Queue) {
			q.StoreKV(c, tk, tv, rows)
			q.Attention(dst, tq, c, d.scale, rows)
		})
		got := r.read(dst)
		for i, n := range d.lengths {
			if to := min(from+chunk, n); from < to {
				size := (to - from) * width * d.group
				out[i], got = append(out[i], got[:size]...), got[size:]
			}
		}
	}
	return out, c, tables
}

// cached reads a token's key and value from a cache's bytes, by the picture in
// source/params.h.
func cached(s kernels.CacheSpec, mem []byte, page, head, token int) (k, v []float64) {
	half := len(mem) / s.Pages / s.Heads / 2
	keys := mem[(page*s.Heads+head)*2*half:][:half]
	values := mem[(page*s.Heads+head)*2*half+half:][:half]
	_, size := s.Type.Block()
	for d := range s.HeadDim {
		switch s.Type {
		case kernels.Q8_0:
			number := func(page []byte, scale, q int) float64 {
				return float64(kernels.Float16frombits(le.Uint16(page[scale:]))) * float64(int8(page[q]))
			}
			scales := s.HeadDim / 32 * 64
			k = append(k, number(keys, (d/32*32+token)*2, scales+(d/16*32+token)*16+d%16))
			v = append(v, number(values, (token*s.HeadDim/32+d/32)*2, scales+token*s.HeadDim+d))
		default:
			chunks := ceil(s.HeadDim*size, 16)
			read := func(b []byte) float64 {
				if size == 2 {
					return float64(kernels.Float16frombits(le.Uint16(b)))
				}
				return float64(math.Float32frombits(le.Uint32(b)))
			}
			c, in := d*size/16, d*size%16
			k = append(k, read(keys[(c*32+token)*16+in:]))
			v = append(v, read(values[(token*chunks+c)*16+in:]))
		}
	}
	return k, v
}

var cacheTypes = []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0}

// eachShape runs a test for the cache types, head sizes and groups.
func eachShape(t *testing.T, test func(t *testing.T, typ kernels.Type, group, dim int)) {
	for _, typ := range cacheTypes {
		for _, c := range []struct{ dim, group int }{{7, 1}, {8, 4}, {64, 1}, {64, 8}, {80, 2}, {96, 3}, {128, 4}, {288, 1}, {512, 2}} {
			if typ == kernels.Q8_0 && c.dim%32 != 0 || testing.Short() && c.group%4 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%v/dim %d/group %d", typ, c.dim, c.group), func(t *testing.T) { test(t, typ, c.group, c.dim) })
		}
	}
}

// bytesOfCache returns what a GPU's cache holds.
func (r *rig) bytesOfCache(c kernels.Cache) []byte { return r.bytes(c.(*cache).buf, c.Bytes()) }

// farthest returns the largest difference of a dialogue's results from float64's,
// over the keys and values as the cache has them.
func (d *dialogue) farthest(mem []byte, tables [][]int32, out [][]float32) (far float64) {
	for s, n := range d.lengths {
		for head := range d.spec.Heads {
			keys, values := make([][]float64, n), make([][]float64, n)
			for p := range n {
				keys[p], values[p] = cached(d.spec, mem, d.base+int(tables[s][p/32]), head, p%32)
			}
			for row := range n {
				for g := range d.group {
					at := ((row*d.spec.Heads+head)*d.group + g) * d.spec.HeadDim
					want := attend(d.q[s][at:][:d.spec.HeadDim], keys[:row+1], values, float64(d.scale))
					for i, w := range want {
						if off := math.Abs(float64(out[s][at+i]) - w); !(off <= far) {
							far = off // NaN stays
						}
					}
				}
			}
		}
	}
	return far
}

func TestAttentionIsNearTheExactOne(t *testing.T) {
	eachShape(t, func(t *testing.T, typ kernels.Type, group, dim int) {
		r := onGPU(t)
		d := newDialogue(newRand(uint64(dim+group)), typ, 2, group, dim, 50, 1, 38)
		out, c, tables := d.on(r, 29, newRand(8))
		require.Less(t, d.farthest(r.bytesOfCache(c), tables, out), 4e-6, "of numbers around 1")
	})
}

// A row of more pages than the kernel has warps, so that some get two.
func TestAttentionOverManyPages(t *testing.T) {
	r := onGPU(t)
	for _, typ := range cacheTypes {
		d := newDialogue(newRand(40), typ, 1, 2, 32, 330)
		out, c, tables := d.on(r, 110, newRand(41))
		require.Less(t, d.farthest(r.bytesOfCache(c), tables, out), 4e-6)
	}
}

// attend is softmax(q·Kᵀ·scale)·V as a textbook has it.
func attend(q []float32, keys, values [][]float64, scale float64) []float64 {
	scores, top := make([]float64, len(keys)), math.Inf(-1)
	for p, k := range keys {
		for i, v := range q {
			scores[p] += float64(v) * k[i] * scale
		}
		top = max(top, scores[p])
	}
	sum, out := 0.0, make([]float64, len(q))
	for p, score := range scores {
		w := math.Exp(score - top)
		sum += w
		for i := range out {
			out[i] += w * values[p][i]
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// Chunks, pages, what is left in them, other rows and the base of the page numbers
// don't change a bit.
func TestAttentionHasTheSameBitsHoweverItIsCut(t *testing.T) {
	eachShape(t, func(t *testing.T, typ kernels.Type, group, dim int) {
		r := onGPU(t)
		d := newDialogue(newRand(uint64(dim+group)), typ, 2, group, dim, 45, 1, 70)
		want, _, _ := d.on(r, 500, newRand(9))
		alone := *d
		alone.lengths, alone.q, alone.k, alone.v = d.lengths[2:], d.q[2:], d.k[2:], d.v[2:]
		based := *d
		based.base, based.spec.Pages = 3, d.spec.Pages+4
		for i, other := range []*dialogue{d, &based, &alone} {
			chunk := []int{7, 33, 23}[i]
			got, _, _ := other.on(r, chunk, newRand(uint64(chunk)))
			for s := range got {
				sameBits(t, want[len(want)-len(got)+s], got[s], "chunks of %d, sequence %d of %d", chunk, s, other.lengths[s])
			}
		}
	})
}

// Pages of a shared prefix, read through another table by rows that begin in
// the middle, give what the sequence gives alone.
func TestAttentionOverASharedPrefix(t *testing.T) {
	r := onGPU(t)
	d := newDialogue(newRand(10), kernels.F16, 2, 4, 64, 90)
	want, c, tables := d.on(r, 500, newRand(11))
	var h kernels.Header
	h.Table([]int32{-1, 7777}) // another sequence's, which no row here reads
	width := 2 * 64
	var q []float32
	for _, p := range []int{64, 65, 80, 66, 89, 3} {
		h.Append(0, int32(p), h.Table(tables[0]), false)
		q = append(q, d.q[0][p*width*4:][:width*4]...)
	}
	tq, dst, rows := r.tensor(6, width*4, q), r.tensor(6, width*4, nil), r.rows(&h)
	r.run(func(queue kernels.Queue) { queue.Attention(dst, tq, c, d.scale, rows) })
	got := r.read(dst)
	for i, p := range []int{64, 65, 80, 66, 89, 3} {
		sameBits(t, want[0][p*width*4:][:width*4], got[i*width*4:][:width*4], "position %d", p)
	}
}

func TestAttentionShowsWhatIsWrong(t *testing.T) {
	r := onGPU(t)
	for _, typ := range cacheTypes {
		d := newDialogue(newRand(12), typ, 1, 2, 64, 50)
		d.k[0][20*64+3] = nan
		d.v[0][35*64+1] = float32(math.Inf(1))
		out, _, _ := d.on(r, 500, newRand(13))
		for i, v := range out[0] {
			if row := i / 128; row < 20 {
				require.False(t, v != v, "%v: position %d sees nothing wrong", typ, row)
			} else {
				require.True(t, v != v, "%v: position %d sees a NaN key", typ, row)
			}
		}
	}
}

func TestStoreKVRounds(t *testing.T) {
	r := onGPU(t)
	for _, typ := range cacheTypes {
		d := newDialogue(newRand(14), typ, 3, 1, 96, 70)
		for i := range d.k[0] {
			d.k[0][i] *= float32(math.Exp2(float64(i/96%40 - 25)))
		}
		clear(d.v[0][:96])
		_, c, tables := d.on(r, 500, newRand(15))
		mem := r.bytesOfCache(c)
		for p := range 70 {
			for head := range 3 {
				k, v := cached(d.spec, mem, int(tables[0][p/32]), head, p%32)
				at := (p*3 + head) * 96
				requireRounded(t, typ, d.k[0][at:][:96], k)
				requireRounded(t, typ, d.v[0][at:][:96], v)
			}
		}
	}
}

func requireRounded(t *testing.T, typ kernels.Type, want []float32, got []float64) {
	t.Helper()
	for i, w := range want {
		switch typ {
		case kernels.F32:
			require.Equal(t, float64(w), got[i])
		case kernels.F16:
			require.Equal(t, float64(kernels.Float16frombits(kernels.Float16bits(w))), got[i])
		case kernels.Q8_0:
			largest := float32(0)
			for _, v := range want[i/32*32:][:32] {
				largest = max(largest, v, -v)
			}
			step := kernels.Float16frombits(kernels.Float16bits(largest / 127))
			q := 0.0
			if inverse := 1 / step; inverse-inverse == 0 {
				q = max(-127, min(127, math.RoundToEven(float64(w*inverse))))
			}
			require.Equal(t, float64(step)*q, got[i], "largest %v", largest)
		}
	}
}

func TestCacheTakesWhatWasSaidBeforehand(t *testing.T) {
	r := onGPU(t)
	for _, c := range []struct {
		spec  kernels.CacheSpec
		bytes int64
	}{
		{kernels.CacheSpec{Type: kernels.F32, Heads: 2, HeadDim: 64, Pages: 3}, 2 * 3 * 32 * 64 * 2 * 4},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 80, Pages: 5}, 5 * 32 * 80 * 2 * 2},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 9, Pages: 1}, 32 * 2 * 32},
		{kernels.CacheSpec{Type: kernels.Q8_0, Heads: 4, HeadDim: 128, Pages: 2}, 4 * 2 * 32 * 128 / 32 * 34 * 2},
	} {
		said, err := backend{}.CacheBytes(c.spec)
		require.NoError(t, err)
		require.Equal(t, c.bytes, said)
		before := r.q.Device().Allocated()
		made, err := r.q.NewCache(c.spec)
		require.NoError(t, err)
		require.Equal(t, said, r.q.Device().Allocated()-before)
		require.Equal(t, said, made.Bytes())
		require.Equal(t, c.spec, made.Spec())
		require.NoError(t, made.Free())
		require.Equal(t, before, r.q.Device().Allocated())
	}
	for _, s := range []kernels.CacheSpec{
		{Type: kernels.Q4_0, Heads: 1, HeadDim: 32, Pages: 1},
		{Type: kernels.Q8_0, Heads: 1, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 0, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 1, HeadDim: math.MaxInt, Pages: 1},
		{Type: kernels.F32, Heads: math.MaxInt, HeadDim: 64, Pages: 1},
		{Type: kernels.F32, Heads: 1 << 10, HeadDim: 64, Pages: math.MaxInt},
		{Type: kernels.F32, Heads: 1 << 15, HeadDim: 1 << 23, Pages: 1 << 30},
		{Type: kernels.F32, Heads: 1 << 10, HeadDim: 1 << 10, Pages: 1 << 14}, // more than the machine has
	} {
		_, err := r.q.NewCache(s)
		require.Error(t, err, "%+v", s)
	}
}
