package kerneltest

import (
	"fmt"
	"testing"

	"github.com/leat-dev/leat/kernels"
)

// variants are attentions of so many query heads, each with something beside the scale.
func variants(heads int) map[string]variant {
	rng := NewRand(43)
	sinks, slopes := Normals(rng, heads), Normals(rng, heads)
	for i := range slopes {
		slopes[i] = 0.2 * max(slopes[i], -slopes[i])
	}
	all := map[string]variant{
		"soft-cap": {softCap: 1.5}, "sinks": {sinks: sinks}, "slopes": {slopes: slopes},
		"all": {window: 37, softCap: 2, sinks: sinks, slopes: slopes},
	}
	for _, window := range []int{1, 7, 32, 33, 70, 1000} {
		all[fmt.Sprintf("window of %d", window)] = variant{window: window}
	}
	return all
}

// Windows, soft-caps, sinks and slopes are near what float64 makes of them, and have
// the same bits however a batch is cut.
func attentionVariants(t *testing.T, b Backend) {
	for _, typ := range CacheTypes {
		const heads, group, dim = 2, 2, 64
		for name, v := range variants(heads * group) {
			if b.Slow && typ == kernels.F32 && name != "all" {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", typ, name), func(t *testing.T) {
				rigs := b.rigs(t)
				d := NewDialogue(NewRand(44), typ, heads, group, dim, b.fewer(150, 110), 1, 40)
				d.variant = v
				want, _, _ := d.On(rigs[0], 500, NewRand(45))
				d.isNear(t, want)
				alone := *d
				alone.lengths, alone.Q, alone.K, alone.V = d.lengths[2:], d.Q[2:], d.K[2:], d.V[2:]
				for i, r := range rigs {
					for _, c := range []struct {
						d     *Dialogue
						chunk int
					}{{d, b.fewer(1, 51)}, {d, 33}, {&alone, 23}} {
						got, _, _ := c.d.On(r, c.chunk, NewRand(uint64(c.chunk+i)))
						for s := range got {
							SameBits(t, want[len(want)-len(got)+s], got[s], "chunks of %d, sequence %d of %d", c.chunk, s, c.d.lengths[s])
						}
					}
				}
			})
		}
	}
}

// What lies before a window is not read, nor is the page table: numbers that are none
// don't show, and neither does a page that isn't there.
func attentionWindows(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		d := NewDialogue(NewRand(46), typ, 1, 2, 32, 120)
		d.variant.window = 40
		want, _, _ := d.On(r, 500, NewRand(47))
		for i := range 70 * 32 { // positions 0 to 69, of which those from 109 on see none
			d.K[0][i], d.V[0][i] = NaN, NaN
		}
		got, c, tables := d.On(r, 500, NewRand(47))
		SameBits(t, want[0][109*64:], got[0][109*64:], "NaN before the window")

		var h kernels.Header
		table := append([]int32{-1, 7777}, tables[0][2:]...) // positions 0 to 63
		h.Append(0, 109, h.Table(table), false)
		q, dst, rows := r.Tensor(1, 64, d.Q[0][109*64:][:64]), r.Tensor(1, 64, nil), r.Rows(&h)
		spec := d.variant.on(r, d.scale)
		r.Run(func(queue kernels.Queue) { queue.Attention(dst, q, c, spec, rows) })
		SameBits(t, want[0][109*64:][:64], r.Read(dst), "pages before the window")
	}
}
