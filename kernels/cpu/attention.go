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
	h     header
	heads int
	group int // query heads to a key/value head
	tiles []tile
	parts int

	scale, softCap float32 // as in kernels.AttentionSpec
	window         int
	sinks, slopes  []float32
	adjusted       bool // scores are more than scaled

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
	if query.Cols%(s.Heads*s.HeadDim) != 0 {
		a.fail("q has %d columns, which are not whole heads of %d, a multiple of the cache's %d", query.Cols, s.HeadDim, s.Heads)
	}
	j.heads = query.Cols / s.HeadDim
	j.group = j.heads / s.Heads
	j.variant(&a, &spec)
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

// variant reads what the op is asked for.
func (j *attention) variant(a *args, spec *kernels.AttentionSpec) {
	if err := spec.Check(); err != nil {
		a.fail("%w", err)
	}
	j.scale, j.window, j.softCap = spec.Scale, spec.Window, spec.SoftCap
	j.sinks, j.slopes = nil, nil
	if spec.Sinks != nil {
		j.sinks = a.vector("Sinks", spec.Sinks, j.heads)
	}
	if spec.Slopes != nil {
		j.slopes = a.vector("Slopes", spec.Slopes, j.heads)
	}
	j.adjusted = j.window > 0 || j.softCap > 0 || j.slopes != nil
}

// from returns the first position that a row attends to.
func (j *attention) from(position int) int {
	if j.window == 0 {
		return 0
	}
	return max(0, position-j.window+1)
}

// cut makes the tiles and parts, and checks the rows' positions and the pages that
// they attend to.
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
		first := j.from(int(positions[row])) / kernels.PageTokens
		row += t.rows
		last := row - 1
		blocks := int(positions[last])/kernels.PageTokens + 1
		for b := first; b < blocks; b++ {
			if a.page(&j.h, last, b, s.Pages); a.err != nil {
				return
			}
		}
		j.tiles = append(j.tiles, t)
		// Of each position and query head some 2 nanoseconds for the exponential,
		// and two products of headDim; and each element of a page is read.
		ns += float64(blocks-first) * kernels.PageTokens * float64(s.Heads) *
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
		j.tile(&w, u, to)
	}
}

// unit returns the tile and the key/value head of a unit.
func (j *attention) unit(u int) (t tile, head int) {
	return j.tiles[u/j.cache.spec.Heads], u % j.cache.spec.Heads
}

// page returns the keys and the values that a unit sees of the block of positions
// from start on.
func (j *attention) page(u, start int) (keys, values []byte) {
	t, head := j.unit(u)
	return j.cache.page(j.mem, j.h.page(t.row, start/kernels.PageTokens), head)
}

// begins returns where a unit's first block of positions starts.
func (j *attention) begins(u int) int {
	t, _ := j.unit(u)
	return j.from(int(j.h.positions[t.row])) / kernels.PageTokens * kernels.PageTokens
}

// after returns the keys and values that are read after a unit's block of positions
// from start on, where last is its last position: those of its next block, or of the
// unit behind it. They are to be fetched, since pages lie anywhere.
func (j *attention) after(u, start, last, units int) (keys, values []byte) {
	switch start += kernels.PageTokens; {
	case start <= last:
		return j.page(u, start)
	case u+1 < units:
		return j.page(u+1, j.begins(u+1))
	}
	return nil, nil
}

// tile computes unit u: one key/value head's query heads for a tile's rows. In w, row
// r's query head g is r·group+g. The units up to units-1 follow it.
func (j *attention) tile(w *tileWork, u, units int) {
	t, head := j.unit(u)
	dim, n := j.cache.spec.HeadDim, t.rows*j.group
	first := int(j.h.positions[t.row])
	for r := range t.rows {
		copy(w.q[r*j.group*dim:][:j.group*dim], j.query[j.at(t.row+r, head):])
	}
	j.begin(w, n, head)

	last := first + t.rows - 1
	nextKeys, nextValues := j.page(u, j.begins(u))
	for start := j.begins(u); start <= last; start += kernels.PageTokens {
		keys, values := nextKeys, nextValues
		nextKeys, nextValues = j.after(u, start, last, units)
		typ, count := j.cache.spec.Type, min(kernels.PageTokens, last+1-start)
		fetchKeys, fetchValues := nextKeys, nextValues
		if typ == kernels.Q8_0 { // what is multiplied is not what is stored
			keys, values = j.expand(w, keys, values, count)
			panel.Fetch(fetchKeys)
			typ, fetchKeys, fetchValues = kernels.F32, nil, nil
		}
		// Rows before the block are done; those whose window begins behind it come later.
		live, end := max(0, start-first), t.rows
		if j.window > 0 {
			end = min(end, start+kernels.PageTokens-1+j.window-first)
		}
		from, most := live*j.group, (end-live)*j.group
		j.kern.Score(typ, keys, dim, w.q[from*dim:], most, w.s[from*kernels.PageTokens:], count, fetchKeys)
		if fetchValues == nil {
			panel.Fetch(nextValues)
		}
		j.block(w, typ, values, fetchValues, start, first, live, end, head)
	}
	for r := range t.rows {
		out := j.dst[j.at(t.row+r, head):][:j.group*dim]
		for g := range j.group {
			i := r*j.group + g
			j.kern.Divide(out[g*dim:][:dim], w.acc[i*w.padded:], w.l[i])
		}
	}
}

// begin sets n query heads to where no position has been seen. A sink is then a score
// without a value: the largest so far, whose weight is 1.
func (j *attention) begin(w *tileWork, n, head int) {
	clear(w.acc[:n*w.padded])
	for i := range n {
		w.m[i], w.l[i] = float32(math.Inf(-1)), 0
		if j.sinks != nil {
			w.m[i], w.l[i] = j.sinks[head*j.group+i%j.group], 1
		}
	}
}

// block brings the block of positions from start on into rows live to end-1 of a tile
// whose first row is at position first. Rows that see the same part of it go together.
func (j *attention) block(w *tileWork, typ kernels.Type, values, fetch []byte, start, first, live, end, head int) {
	seen := func(r int) (from, count int) {
		return max(0, j.from(first+r)-start), min(kernels.PageTokens, first+r-start+1)
	}
	scale := j.scale
	if j.adjusted {
		scale = 1
		j.adjust(w, start, first, live, end, head)
	}
	for r := live; r < end; {
		from, count := seen(r)
		next := r + 1
		for ; next < end; next++ {
			if f, c := seen(next); f != from || c != count {
				break
			}
		}
		i, n := r*j.group, (next-r)*j.group
		s, c := w.s[i*kernels.PageTokens:], w.c[i:][:n]
		for at := 0; from > 0 && at < n; at++ {
			fill(s[at*kernels.PageTokens:][:from], float32(math.Inf(-1)))
		}
		j.kern.Soften(s, count, scale, w.m[i:][:n], w.l[i:], c)
		// What lies behind count is not read: it may be left from another sequence.
		j.kern.Weigh(typ, values, from, count, s, c, w.acc[i*w.padded:], w.padded, fetch)
		r, fetch = next, nil
	}
}

// adjust scales the scores of rows live to end-1, bounds them and takes away what
// their distance costs.
func (j *attention) adjust(w *tileWork, start, first, live, end, head int) {
	all := w.s[live*j.group*kernels.PageTokens : end*j.group*kernels.PageTokens]
	j.kern.Multiply(all, all, j.scale)
	if j.softCap > 0 {
		j.kern.SoftCap(all, all, j.softCap)
	}
	if j.slopes == nil {
		return
	}
	for i := live * j.group; i < end*j.group; i++ {
		slope, distance := j.slopes[head*j.group+i%j.group], float32(first+i/j.group-start)
		s := w.s[i*kernels.PageTokens:][:kernels.PageTokens]
		for t := range s {
			s[t] -= float32(slope * distance)
			distance--
		}
	}
}

func fill(s []float32, v float32) {
	for i := range s {
		s[i] = v
	}
}

// at returns where a row's query heads of a key/value head begin.
func (j *attention) at(row, head int) int {
	return (row*j.heads + head*j.group) * j.cache.spec.HeadDim
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
