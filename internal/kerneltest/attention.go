package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Attention tests keys and values that StoreKV stored, over caches of every type.
func Attention(t *testing.T, b Backend) {
	b.run(t,
		part{"IsNearTheExactOne", attentionIsNear},
		part{"OverManyPages", attentionOverManyPages},
		part{"HasTheSameBitsHoweverItIsCut", attentionIsCut},
		part{"OverASharedPrefix", attentionOverASharedPrefix},
		part{"Variants", attentionVariants},
		part{"WindowsSeeNothingElse", attentionWindows},
		part{"ShowsWhatIsWrong", attentionShowsWhatIsWrong})
}

// eachShape runs a test for the cache types, head sizes and groups.
func eachShape(t *testing.T, b Backend, test func(t *testing.T, typ kernels.Type, group, dim int)) {
	type shape struct{ dim, group int }
	shapes := []shape{{7, 1}, {8, 4}, {64, 1}, {64, 8}, {80, 2}, {96, 3}, {128, 4}, {288, 1}, {512, 2}}
	if !b.Slow {
		shapes = []shape{{7, 1}, {96, 3}, {288, 1}, {512, 2}}
		for _, dim := range []int{8, 64, 80, 96, 128} {
			for _, group := range []int{1, 2, 4, 8} {
				shapes = append(shapes, shape{dim, group})
			}
		}
	}
	for _, typ := range CacheTypes {
		for _, c := range shapes {
			few := b.Slow && c.group%4 != 0 || c.group%4 == 2 || !b.Slow && c.dim > 128 // those that a short run leaves out
			if typ == kernels.Q8_0 && c.dim%block != 0 || testing.Short() && few {
				continue
			}
			t.Run(fmt.Sprintf("%v/dim %d/group %d", typ, c.dim, c.group), func(t *testing.T) { test(t, typ, c.group, c.dim) })
		}
	}
}

// isNear compares a dialogue's results with float64's, over the keys and values as a
// cache has them.
func (d *Dialogue) isNear(t *testing.T, out [][]float32) {
	t.Helper()
	for s := range d.lengths {
		for head := range d.spec.Heads {
			keys, values := storedAll(d.spec.Type, d.head(d.K[s], head)), storedAll(d.spec.Type, d.head(d.V[s], head))
			d.each(s, head, func(q []float32, at, row int) {
				for i, w := range d.variant.attend(q, keys[:row+1], values, d.queryHead(at), float64(d.scale)) {
					if got := float64(out[s][at+i]); !(math.Abs(got-w) < 4e-6) { // of numbers around 1
						t.Fatalf("sequence %d, position %d, head %d: element %d is %v, it must be %v", s, row, head, i, got, w)
					}
				}
			})
		}
	}
}

func attentionIsNear(t *testing.T, b Backend) {
	eachShape(t, b, func(t *testing.T, typ kernels.Type, group, dim int) {
		r := b.Rig(t)
		d := NewDialogue(NewRand(uint64(dim+group)), typ, 2, group, dim, b.fewer(75, 50), 1, 40)
		out, c, tables := d.On(r, 29, NewRand(8))
		d.isStored(t, b, r.Cached(c), tables)
		d.isNear(t, out)
	})
}

// A row of so many pages that whatever shares them out has several.
func attentionOverManyPages(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		d := NewDialogue(NewRand(40), typ, 1, 2, 32, 330)
		out, _, _ := d.On(r, 110, NewRand(41))
		d.isNear(t, out)
	}
}

// Chunks, cores, pages, what is left in them, other rows and the base of the page
// numbers don't change a bit.
func attentionIsCut(t *testing.T, b Backend) {
	eachShape(t, b, func(t *testing.T, typ kernels.Type, group, dim int) {
		rigs := b.rigs(t)
		d := NewDialogue(NewRand(uint64(dim+group)), typ, 2, group, dim, b.fewer(75, 45), 1, b.fewer(100, 70))
		want, _, _ := d.On(rigs[0], b.fewer(1, 500), NewRand(9))
		alone := *d
		alone.lengths, alone.Q, alone.K, alone.V = d.lengths[2:], d.Q[2:], d.K[2:], d.V[2:]
		based := *d
		based.base, based.spec.Pages = 3, d.spec.Pages+4
		for i, r := range rigs {
			for _, c := range []struct {
				d     *Dialogue
				chunk int
			}{{d, 7}, {d, 500}, {&based, 33}, {&alone, 23}} {
				got, _, _ := c.d.On(r, c.chunk, NewRand(uint64(c.chunk+i)))
				for s := range got {
					SameBits(t, want[len(want)-len(got)+s], got[s], "chunks of %d, sequence %d of %d", c.chunk, s, c.d.lengths[s])
				}
			}
		}
	})
}

// Pages of a shared prefix, read through another table by rows that begin in
// the middle, give what the sequence gives alone.
func attentionOverASharedPrefix(t *testing.T, b Backend) {
	r := b.Rig(t)
	d := NewDialogue(NewRand(10), kernels.F16, 2, 4, 64, 90)
	want, c, tables := d.On(r, 500, NewRand(11))
	var h kernels.Header
	h.Table([]int32{-1, 7777}) // another sequence's, which no row here reads
	const width = 2 * 4 * 64
	var q []float32
	positions := []int{64, 65, 80, 66, 89, 3}
	for _, p := range positions {
		h.Append(0, int32(p), h.Table(tables[0]), false)
		q = append(q, d.Q[0][p*width:][:width]...)
	}
	tq, dst, rows := r.Tensor(6, width, q), r.Tensor(6, width, nil), r.Rows(&h)
	r.Run(func(queue kernels.Queue) { queue.Attention(dst, tq, c, kernels.AttentionSpec{Scale: d.scale}, rows) })
	got := r.Read(dst)
	for i, p := range positions {
		SameBits(t, want[0][p*width:][:width], got[i*width:][:width], "position %d", p)
	}
}

func attentionShowsWhatIsWrong(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		d := NewDialogue(NewRand(12), typ, 1, 2, 64, 50)
		d.K[0][20*64+3] = NaN
		d.V[0][35*64+1] = inf
		out, _, _ := d.On(r, 500, NewRand(13))
		for i, v := range out[0] {
			if row := i / 128; row < 20 {
				require.False(t, v != v, "%v: position %d sees nothing wrong", typ, row)
			} else {
				require.True(t, v != v, "%v: position %d sees a NaN key", typ, row)
			}
		}
	}
}
