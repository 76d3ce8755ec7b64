package cpu

import (
	"encoding/binary"
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
	q, k, v [][]float32 // for each sequence
}

func newDialogue(rng *rand.Rand, typ kernels.Type, heads, group, dim int, lengths ...int) *dialogue {
	d := &dialogue{
		spec:  kernels.CacheSpec{Type: typ, Heads: heads, HeadDim: dim},
		group: group, scale: float32(1 / math.Sqrt(float64(dim))), lengths: lengths,
	}
	for _, n := range lengths {
		d.spec.Pages += (n+kernels.PageTokens-1)/kernels.PageTokens + 1
		d.q = append(d.q, normals(rng, n*heads*group*dim))
		d.k = append(d.k, normals(rng, n*heads*dim))
		d.v = append(d.v, normals(rng, n*heads*dim))
	}
	return d
}

// on computes the dialogue on a rig: chunks of a sequence after another, those
// of all sequences in one batch. Pages are dealt by rng, over memory full of NaN.
func (d *dialogue) on(r *rig, chunk int, rng *rand.Rand) (out [][]float32, c *cache, tables [][]int32) {
	r.Helper()
	made, err := r.q.NewCache(d.spec)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, made.Free()) })
	c = made.(*cache)
	for i := range c.buf.Bytes() {
		c.buf.Bytes()[i] = 0xff
	}
	free := rng.Perm(d.spec.Pages)
	tables = make([][]int32, len(d.lengths))
	for i, n := range d.lengths {
		for range (n + kernels.PageTokens - 1) / kernels.PageTokens {
			tables[i], free = append(tables[i], int32(free[0])), free[1:]
		}
	}
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
				h.Append(0, int32(p), table, false)
			}
			width := d.spec.Heads * d.spec.HeadDim
			q = append(q, d.q[i][from*width*d.group:to*width*d.group]...)
			k = append(k, d.k[i][from*width:to*width]...)
			v = append(v, d.v[i][from*width:to*width]...)
		}
		rows, n, width := r.rows(&h), len(h.Tokens), d.spec.Heads*d.spec.HeadDim
		tq, tk, tv := r.tensor(n, width*d.group, q), r.tensor(n, width, k), r.tensor(n, width, v)
		dst := r.tensor(n, width*d.group, nil)
		r.run(func(q kernels.Queue) {
			q.StoreKV(c, tk, tv, rows)
			q.Attention(dst, tq, c, d.scale, rows)
		})
		r.margins(dst)
		got := read(dst)
		for i, n := range d.lengths {
			if to := min(from+chunk, n); from < to {
				size := (to - from) * width * d.group
				out[i], got = append(out[i], got[:size]...), got[size:]
			}
		}
	}
	return out, c, tables
}

// cached reads a token's key and value back from a page, by the layout that
// type cache documents.
func cached(c *cache, page, head, token int) (k, v []float64) {
	const tokens = kernels.PageTokens
	s := c.spec
	keys, values := c.page(c.buf.Bytes(), page, head)
	for d := range s.HeadDim {
		kAt := (token/16*s.HeadDim+d)*16 + token%16
		vAt := (d/16*tokens+token)*16 + d%16
		switch s.Type {
		case kernels.F32:
			k = append(k, float64(float32s(keys)[kAt]))
			v = append(v, float64(float32s(values)[vAt]))
		case kernels.F16:
			k = append(k, float64(kernels.Float16frombits(uint16s(keys)[kAt])))
			v = append(v, float64(kernels.Float16frombits(uint16s(values)[vAt])))
		case kernels.Q8_0:
			number := func(page []byte, scale, q int) float64 {
				return float64(kernels.Float16frombits(binary.LittleEndian.Uint16(page[scale:]))) * float64(int8(page[q]))
			}
			kAt := (token/16*s.HeadDim + d/32*32) * 17 // 16 bytes an element, and a 32nd of 16 scales
			k = append(k, number(keys, kAt+token%16*2, kAt+32+d%32*16+token%16))
			vAt := (token*s.HeadDim + d) / 32 * 34
			v = append(v, number(values, vAt, vAt+2+d%32))
		}
	}
	return k, v
}

var cacheTypes = []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0}

// eachShape runs a test for the cache types, head sizes and groups.
func eachShape(t *testing.T, test func(t *testing.T, typ kernels.Type, group, dim int)) {
	for _, typ := range cacheTypes {
		for _, dim := range []int{8, 64, 80, 96, 128} {
			for _, group := range []int{1, 2, 4, 8} {
				if typ == kernels.Q8_0 && dim%32 != 0 || testing.Short() && group%4 == 2 {
					continue
				}
				t.Run(fmt.Sprintf("%v/dim %d/group %d", typ, dim, group), func(t *testing.T) { test(t, typ, group, dim) })
			}
		}
	}
}

func TestAttentionIsNearTheExactOne(t *testing.T) {
	eachShape(t, func(t *testing.T, typ kernels.Type, group, dim int) {
		d := newDialogue(newRand(uint64(dim+group)), typ, 2, group, dim, 75, 1, 40)
		out, c, tables := d.on(newRig(t, 0), 29, newRand(8))
		for s, n := range d.lengths {
			for head := range d.spec.Heads {
				keys, values := make([][]float64, n), make([][]float64, n)
				for p := range n {
					keys[p], values[p] = cached(c, int(tables[s][p/32]), head, p%32)
				}
				for row := range n {
					for g := range group {
						at := ((row*d.spec.Heads+head)*group + g) * dim
						want := attend(d.q[s][at:][:dim], keys[:row+1], values, float64(d.scale))
						for i, w := range want {
							if got := float64(out[s][at+i]); !(math.Abs(got-w) < 4e-6) {
								t.Fatalf("sequence %d, position %d, head %d: element %d is %v, it must be %v", s, row, head*group+g, i, got, w)
							}
						}
					}
				}
			}
		}
	})
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

// Chunks, cores, pages and what is left in them don't change a bit.
func TestAttentionHasTheSameBitsHoweverItIsCut(t *testing.T) {
	eachShape(t, func(t *testing.T, typ kernels.Type, group, dim int) {
		rigs := oneAndAll(t)
		d := newDialogue(newRand(uint64(dim+group)), typ, 2, group, dim, 75, 1, 100)
		want, _, _ := d.on(rigs[0], 1, newRand(9))
		for i, r := range rigs {
			for _, chunk := range []int{7, 500} {
				got, _, _ := d.on(r, chunk, newRand(uint64(chunk+i)))
				for s := range want {
					sameBits(t, want[s], got[s], "chunks of %d, sequence %d of %d", chunk, s, d.lengths[s])
				}
			}
		}
	})
}

// Pages of a shared prefix, read through another table by rows that begin in
// the middle, give what the sequence gives alone.
func TestAttentionOverASharedPrefix(t *testing.T) {
	r := newRig(t, 0)
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
	for i, p := range []int{64, 65, 80, 66, 89, 3} {
		sameBits(t, want[0][p*width*4:][:width*4], read(dst)[i*width*4:][:width*4], "position %d", p)
	}
}

func TestAttentionShowsWhatIsWrong(t *testing.T) {
	for _, typ := range cacheTypes {
		d := newDialogue(newRand(12), typ, 1, 2, 64, 50)
		d.k[0][20*64+3] = float32(math.NaN())
		d.v[0][35*64+1] = float32(math.Inf(1))
		out, _, _ := d.on(newRig(t, 0), 500, newRand(13))
		for i, v := range out[0] {
			if row := i / 128; row < 20 {
				require.False(t, math.IsNaN(float64(v)), "%v: position %d sees nothing wrong", typ, row)
			} else {
				require.True(t, math.IsNaN(float64(v)), "%v: position %d sees a NaN key", typ, row)
			}
		}
	}
}

func TestStoreKVRounds(t *testing.T) {
	r := newRig(t, 0)
	for _, typ := range cacheTypes {
		d := newDialogue(newRand(14), typ, 3, 1, 96, 70)
		for i := range d.k[0] {
			d.k[0][i] *= float32(math.Exp2(float64(i/96%40 - 25)))
		}
		clear(d.v[0][:96])
		_, c, tables := d.on(r, 500, newRand(15))
		for p := range 70 {
			for head := range 3 {
				k, v := cached(c, int(tables[0][p/32]), head, p%32)
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
			largest := 0.0
			for _, v := range want[i/32*32:][:32] {
				largest = max(largest, math.Abs(float64(v)))
			}
			// Half a step of the scale; and where the scale was rounded down, 127 steps of what it lost.
			step := float64(kernels.Float16frombits(kernels.Float16bits(float32(largest / 127))))
			require.InDelta(t, float64(w), got[i], step/2*(1+1e-6)+127*max(0, largest/127-step), "largest %v", largest)
		}
	}
}

func TestCacheTakesWhatWasSaidBeforehand(t *testing.T) {
	r := newRig(t, 0)
	for _, c := range []struct {
		spec  kernels.CacheSpec
		bytes int64
	}{
		{kernels.CacheSpec{Type: kernels.F32, Heads: 2, HeadDim: 64, Pages: 3}, 2 * 3 * 32 * 64 * 2 * 4},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 80, Pages: 5}, 5 * 32 * 80 * 2 * 2},
		{kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 8, Pages: 1}, 32 * (8 + 16) * 2},
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
	}
	for _, s := range []kernels.CacheSpec{
		{Type: kernels.Q4_0, Heads: 1, HeadDim: 32, Pages: 1},
		{Type: kernels.Q8_0, Heads: 1, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 0, HeadDim: 80, Pages: 1},
		{Type: kernels.F16, Heads: 1, HeadDim: math.MaxInt, Pages: 1},
		{Type: kernels.F32, Heads: math.MaxInt, HeadDim: 64, Pages: 1},
		{Type: kernels.F32, Heads: 1 << 30, HeadDim: 64, Pages: 1 << 30},
		{Type: kernels.F32, Heads: 1 << 10, HeadDim: 1 << 10, Pages: 1 << 30}, // more than the machine has
	} {
		_, err := r.q.NewCache(s)
		require.Error(t, err, "%+v", s)
	}
}

// One row at position 2047, and 128 rows up to there.
func BenchmarkAttention(b *testing.B) {
	for _, typ := range cacheTypes {
		for _, n := range []int{1, 128} {
			b.Run(fmt.Sprintf("%v/%d", typ, n), func(b *testing.B) {
				r := newRig(b, 0)
				spec := kernels.CacheSpec{Type: typ, Heads: 8, HeadDim: 128, Pages: 64}
				c, err := r.q.NewCache(spec)
				require.NoError(b, err)
				defer func() { require.NoError(b, c.Free()) }()
				h := kernels.NewHeader(n, spec.Pages)
				var table []int32
				for p := range spec.Pages {
					table = append(table, int32(p))
				}
				h.Table(table)
				for row := range n {
					h.Append(0, int32(2048-n+row), 0, false)
				}
				q, dst, rows := r.tensor(n, 4096, normals(newRand(1), n*4096)), r.tensor(n, 4096, nil), r.rows(h)
				r.q.Begin()
				defer r.q.End()
				for b.Loop() {
					r.q.Attention(dst, q, c, 0.1, rows)
				}
			})
		}
	}
}
