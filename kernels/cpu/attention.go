package cpu

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// tileRows is how many query heads a tile has at most, where a group isn't
// larger: enough that reading a page is shared, few enough to stay in the cache.
const tileRows = 32

// attention is the work of one Attention. Its unit is a tile and a key/value
// head. Rows of a tile read each page together, but each row sums for itself:
// block after block of 32 positions from 0 on, by the online softmax. With m the
// largest score so far, l the sum of weights and acc that of weighted values, a
// block of scores s does
//
//	m' = max(m, s…)   c = e^(m-m')   p = e^(s-m')
//	l = l·c + Σp   acc = acc·c + Σp·v   m = m'
//
// as panel.Kernels.Soften and Weigh have it, and in the end the row's result is
// acc/l.
type attention struct {
	kern  *panel.Kernels
	dst   []float32
	query []float32
	cache *cache
	mem   []byte
	scale float32
	h     header
	heads int
	group int // query heads to a key/value head
	tiles []tile
	parts int

	work  scratch // each worker's tileWork
	sizes tileSizes
	all   []float32
}

// tile is consecutive rows of a batch that are consecutive positions of one
// sequence.
type tile struct{ row, rows int }

func (q *queue) Attention(dst, query kernels.Tensor, c kernels.Cache, spec kernels.AttentionSpec, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Attention"}
	j := &q.attention
	if j.cache, j.mem = a.cache(c); j.cache == nil {
		q.ready(&a)
		return
	}
	s := &j.cache.spec
	j.query = a.floats("q", query, query.Rows, query.Cols)
	j.dst = a.floats("dst", dst, query.Rows, query.Cols)
	j.h = a.header(rows, query.Rows)
	j.scale = spec.Scale
	if field := spec.Unusual(); field != "" {
		a.fail("AttentionSpec.%s is not implemented on a CPU", field)
	}
	if query.Cols%(s.Heads*s.HeadDim) != 0 {
		a.fail("q has %d columns, which are not whole heads of %d, a multiple of the cache's %d", query.Cols, s.HeadDim, s.Heads)
	}
	j.heads = query.Cols / s.HeadDim
	j.group = j.heads / s.Heads
	if a.err == nil {
		j.cut(&a)
	}
	if !q.ready(&a) || len(j.tiles) == 0 {
		return
	}
	j.sizes = sizesOf(s, max(j.group, tileRows/j.group*j.group))
	mem, err := j.work.take(q.Device(), 4*int64(j.sizes.all)*int64(q.Workers()))
	if err != nil {
		q.Fail(fmt.Errorf("Attention: %w", err))
		return
	}
	j.all = float32s(mem)
	q.Parallel(j.parts, j)
}

// cut makes the tiles and parts, and checks the rows' positions and pages.
func (j *attention) cut(a *args) {
	s, most := &j.cache.spec, max(1, tileRows/j.group)
	j.tiles = j.tiles[:0]
	positions, tables := j.h.positions, j.h.tables
	ns := 0.0
	for row := 0; row < len(positions); {
		t := tile{row: row, rows: 1}
		for t.rows < most && row+t.rows < len(positions) &&
			tables[row+t.rows] == tables[row] && int(positions[row+t.rows]) == int(positions[row])+t.rows {
			t.rows++
		}
		if positions[row] < 0 {
			a.fail("row %d is at position %d", row, positions[row])
			return
		}
		row += t.rows
		last := row - 1
		blocks := int(positions[last])/kernels.PageTokens + 1
		for b := range blocks {
			if a.page(&j.h, last, b, s.Pages); a.err != nil {
				return
			}
		}
		j.tiles = append(j.tiles, t)
		// Of each position and query head some 2 nanoseconds for the exponential,
		// and two products of headDim; and each element of a page is read.
		ns += float64(blocks) * kernels.PageTokens * float64(s.Heads) *
			(float64(t.rows*j.group)*(2+float64(s.HeadDim)/16) + float64(s.HeadDim)/4)
	}
	j.parts = parts(len(j.tiles)*s.Heads, ns)
}

// Do computes a span of the tiles' heads.
func (j *attention) Do(part, worker int) {
	heads := j.cache.spec.Heads
	w := j.sizes.carve(j.all[worker*j.sizes.all:][:j.sizes.all])
	from, to := span(part, j.parts, len(j.tiles)*heads)
	for u := from; u < to; u++ {
		j.tile(&w, j.tiles[u/heads], u%heads)
	}
}

// tile computes one key/value head's query heads for a tile's rows. In w, row
// r's query head g is r·group+g.
func (j *attention) tile(w *tileWork, t tile, head int) {
	dim, n := j.cache.spec.HeadDim, t.rows*j.group
	first := int(j.h.positions[t.row])
	for r := range t.rows {
		copy(w.q[r*j.group*dim:][:j.group*dim], j.query[j.at(t.row+r, head):])
	}
	for i := range n {
		w.m[i], w.l[i] = float32(math.Inf(-1)), 0
	}
	clear(w.acc[:n*w.padded])

	last := first + t.rows - 1
	for start := 0; start <= last; start += kernels.PageTokens {
		page := j.h.page(t.row, start/kernels.PageTokens)
		keys, values := j.cache.page(j.mem, page, head)
		typ := j.cache.spec.Type
		if typ == kernels.Q8_0 {
			keys, values = j.expand(w, keys, values, min(kernels.PageTokens, last+1-start))
			typ = kernels.F32
		}
		// Rows before the block are done; those that it ends before see all of it.
		live := max(0, start-first) * j.group
		whole := min(t.rows, max(0, start+kernels.PageTokens-1-first)) * j.group
		for half := range min(kernels.PageTokens-1, last-start)/panel.Lanes + 1 {
			p := keys[half*len(keys)*panel.Lanes/kernels.PageTokens:]
			j.kern.Float(typ, p, dim, w.q[live*dim:], dim, n-live, w.s[live*kernels.PageTokens+half*panel.Lanes:], kernels.PageTokens)
		}
		for i := live; i < whole; i += j.group {
			j.weigh(w, typ, values, first+i/j.group-start+1, i, j.group)
		}
		if from := max(live, whole); from < n {
			j.weigh(w, typ, values, kernels.PageTokens, from, n-from)
		}
	}
	for r := range t.rows {
		out := j.dst[j.at(t.row+r, head):][:j.group*dim]
		for g := range j.group {
			i := r*j.group + g
			j.kern.Divide(out[g*dim:][:dim], w.acc[i*w.padded:], w.l[i])
		}
	}
}

// at returns where a row's query heads of a key/value head begin.
func (j *attention) at(row, head int) int {
	return (row*j.heads + head*j.group) * j.cache.spec.HeadDim
}

// weigh brings a block into n query heads, from the i-th on, whose rows see its
// first count positions. What lies behind those is not read: it may be left from
// another sequence.
func (j *attention) weigh(w *tileWork, typ kernels.Type, values []byte, count, i, n int) {
	s, c := w.s[i*kernels.PageTokens:], w.c[i:][:n]
	j.kern.Soften(s, count, j.scale, w.m[i:][:n], w.l[i:], c)
	j.kern.Weigh(typ, values, count, s, c, w.acc[i*w.padded:], w.padded)
}

// expand brings the first count positions of a page in Q8_0 to panels of F32.
func (j *attention) expand(w *tileWork, keys, values []byte, count int) ([]byte, []byte) {
	half := len(keys) / 2
	j.kern.ExpandKeys(w.keys, keys[:half])
	if count > panel.Lanes {
		j.kern.ExpandKeys(w.keys[len(w.keys)/2:], keys[half:])
	}
	j.kern.ExpandValues(w.values, values, count)
	return bytesOf(w.keys), bytesOf(w.values)
}

// tileWork is what a worker keeps of a tile: for each query head its query, the
// block's scores, then weights, and the m, l, c and acc of the online softmax; of
// a Q8_0 cache also the page in F32.
type tileWork struct {
	q, s, acc, m, l, c []float32
	keys, values       []float32
	padded             int // headDim in whole panels
}

// tileSizes are the lengths of a tileWork's slices, and of all together.
type tileSizes struct{ heads, dim, padded, page, all int }

func sizesOf(s *kernels.CacheSpec, heads int) tileSizes {
	z := tileSizes{heads: heads, dim: s.HeadDim, padded: panel.Count(s.HeadDim) * panel.Lanes}
	if s.Type == kernels.Q8_0 {
		z.page = s.HeadDim * kernels.PageTokens
	}
	z.all = heads*(z.dim+kernels.PageTokens+z.padded+3) + 2*z.page
	z.all = (z.all + 31) / 32 * 32 // no two workers share a pair of cache lines
	return z
}

// carve lays a tileWork over a worker's memory. The page comes first, where it
// is aligned.
func (z *tileSizes) carve(mem []float32) tileWork {
	w := tileWork{padded: z.padded}
	for _, part := range [...]struct {
		to *[]float32
		n  int
	}{
		{&w.keys, z.page}, {&w.values, z.page}, {&w.acc, z.heads * z.padded}, {&w.s, z.heads * kernels.PageTokens},
		{&w.q, z.heads * z.dim}, {&w.m, z.heads}, {&w.l, z.heads}, {&w.c, z.heads},
	} {
		*part.to, mem = mem[:part.n:part.n], mem[part.n:]
	}
	return w
}
