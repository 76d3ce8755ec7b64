package kerneltest

import (
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

// Dialogue is some sequences with their queries, keys and values, one row a
// position.
type Dialogue struct {
	spec    kernels.CacheSpec
	group   int // query heads to a head of the cache
	scale   float32
	lengths []int
	base    int         // of the page numbers
	variant variant     // what its attention has beside the scale
	Q, K, V [][]float32 // for each sequence: [positions, heads·HeadDim]; of Q that times group
}

// NewDialogue is a dialogue of random numbers over a cache of that type with heads heads of
// dim elements, of group query heads each.
func NewDialogue(rng *rand.Rand, typ kernels.Type, heads, group, dim int, lengths ...int) *Dialogue {
	d := &Dialogue{
		spec:  kernels.CacheSpec{Type: typ, Heads: heads, HeadDim: dim},
		group: group, scale: float32(1 / math.Sqrt(float64(dim))), lengths: lengths,
	}
	for _, n := range lengths {
		d.spec.Pages += pages(n) + 1
		d.Q = append(d.Q, Normals(rng, n*heads*group*dim))
		d.K = append(d.K, Normals(rng, n*heads*dim))
		d.V = append(d.V, Normals(rng, n*heads*dim))
	}
	return d
}

// pages is how many n positions need.
func pages(n int) int { return (n + kernels.PageTokens - 1) / kernels.PageTokens }

// deal deals each sequence its pages.
func (d *Dialogue) deal(rng *rand.Rand) (tables [][]int32) {
	free := rng.Perm(d.spec.Pages - d.base)
	for _, n := range d.lengths {
		var table []int32
		for range pages(n) {
			table, free = append(table, int32(free[0])), free[1:]
		}
		tables = append(tables, table)
	}
	return tables
}

// cache makes the dialogue's cache, full of bytes that are NaNs where the rig knows
// the memory.
func (d *Dialogue) cache(r *Rig) kernels.Cache {
	r.Helper()
	c := r.Cache(d.spec)
	if r.memory != nil {
		spoilt := make([]byte, c.Bytes())
		for i := range spoilt {
			spoilt[i] = 0xff
		}
		r.Run(func(q kernels.Queue) { q.Upload(r.memory(c), 0, spoilt) })
	}
	return c
}

// On computes the dialogue on a rig: chunks of a sequence after another, those of all
// sequences in one batch. Pages are dealt by rng. It returns each sequence's results,
// its page table, and the cache.
func (d *Dialogue) On(r *Rig, chunk int, rng *rand.Rand) (out [][]float32, c kernels.Cache, tables [][]int32) {
	r.Helper()
	c, tables = d.cache(r), d.deal(rng)
	spec := d.variant.on(r, d.scale)
	out = make([][]float32, len(d.lengths))
	width := d.spec.Heads * d.spec.HeadDim
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
			q = append(q, d.Q[i][from*width*d.group:to*width*d.group]...)
			k = append(k, d.K[i][from*width:to*width]...)
			v = append(v, d.V[i][from*width:to*width]...)
		}
		rows, n := r.Rows(&h), len(h.Tokens)
		rows.Base = d.base
		tq, tk, tv := r.Tensor(n, width*d.group, q), r.TensorAt(Margin+1, n, width, k), r.Tensor(n, width, v)
		dst := r.Tensor(n, width*d.group, nil)
		r.Run(func(q kernels.Queue) {
			q.StoreKV(c, tk, tv, rows)
			q.Attention(dst, tq, c, spec, rows)
		})
		got := r.Read(dst)
		for i, n := range d.lengths {
			if to := min(from+chunk, n); from < to {
				size := (to - from) * width * d.group
				out[i], got = append(out[i], got[:size]...), got[size:]
			}
		}
	}
	return out, c, tables
}

// head returns keys or values of a head of the cache, one slice a position.
func (d *Dialogue) head(x []float32, head int) (all [][]float32) {
	dim := d.spec.HeadDim
	for at := head * dim; at < len(x); at += d.spec.Heads * dim {
		all = append(all, x[at:][:dim])
	}
	return all
}

// each calls judge for each query of the dialogue, with where its result is in On's
// out, and the position that it may see up to.
func (d *Dialogue) each(s, head int, judge func(q []float32, at, row int)) {
	dim := d.spec.HeadDim
	for row := range d.lengths[s] {
		for g := range d.group {
			at := ((row*d.spec.Heads+head)*d.group + g) * dim
			judge(d.Q[s][at:][:dim], at, row)
		}
	}
}

// variant is what an attention has beside its scale, for each query head where it
// says so, as kernels.AttentionSpec has it.
type variant struct {
	window        int
	softCap       float64
	sinks, slopes []float32
}

// on returns the specification for a rig's device.
func (v *variant) on(r *Rig, scale float32) kernels.AttentionSpec {
	r.Helper()
	spec := kernels.AttentionSpec{Scale: scale, Window: v.window, SoftCap: float32(v.softCap)}
	if v.sinks != nil {
		spec.Sinks = r.Vector(v.sinks)
	}
	if v.slopes != nil {
		spec.Slopes = r.Vector(v.slopes)
	}
	return spec
}

// attend is the attention of a query of a head to all keys, the last of which is its
// own position's, as the publications have it that kernels.AttentionSpec names.
func (v *variant) attend(q []float32, keys, values [][]float64, head int, scale float64) []float64 {
	own, first := len(keys)-1, 0
	if v.window > 0 {
		first = max(0, own-v.window+1)
	}
	scores, top := make([]float64, len(keys)), math.Inf(-1)
	if v.sinks != nil {
		top = float64(v.sinks[head])
	}
	for p := first; p <= own; p++ {
		for i, x := range q {
			scores[p] += float64(x) * keys[p][i] * scale
		}
		if v.softCap > 0 {
			scores[p] = v.softCap * math.Tanh(scores[p]/v.softCap)
		}
		if v.slopes != nil {
			scores[p] += float64(v.slopes[head]) * float64(p-own)
		}
		top = max(top, scores[p])
	}
	sum, out := 0.0, make([]float64, len(q))
	if v.sinks != nil {
		sum = math.Exp(float64(v.sinks[head]) - top)
	}
	for p := first; p <= own; p++ {
		w := math.Exp(scores[p] - top)
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

// queryHead returns which query head's result begins at an index of a sequence's.
func (d *Dialogue) queryHead(at int) int { return at / d.spec.HeadDim % (d.spec.Heads * d.group) }

// stored is a key or value of a head as a cache of the type has it: of Q8_0 blocks of
// 32 with d = max|x|/127 rounded to F16 and q = x·(1/d) rounded half to even, 0 where
// 1/d is infinite.
func stored(typ kernels.Type, x []float32) (out []float64) {
	for i, v := range x {
		switch typ {
		case kernels.F16:
			v = kernels.Float16frombits(kernels.Float16bits(v))
		case kernels.Q8_0:
			step := kernels.Float16frombits(kernels.Float16bits(largest(x[i/block*block:][:block]) / 127))
			if inverse := 1 / step; inverse > math.MaxFloat32 {
				v = 0
			} else {
				v = step * float32(max(-127, min(127, math.RoundToEven(float64(v*inverse)))))
			}
		}
		out = append(out, float64(v))
	}
	return out
}

// storedAll is stored of many.
func storedAll(typ kernels.Type, x [][]float32) (out [][]float64) {
	for _, v := range x {
		out = append(out, stored(typ, v))
	}
	return out
}
