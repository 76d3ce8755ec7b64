package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// cache is one layer's pages. A page holds, for each key/value head, the keys
// and then the values of its 32 positions. Of F32 and F16 both are panels, so
// that attention's two products are panel products:
//
//	keys:   | positions 0-15: [headDim][16] | positions 16-31: [headDim][16] |
//	values: | elements 0-15: [32 positions][16] | elements 16-31: … |
//
// with the elements filled up to a multiple of 16. Of Q8_0, keys are panels with
// the scales of 16 positions before each 32 elements, as panel.Kernels.ExpandKeys
// has them, and values 32 rows of blocks as in a file, one a position.
type cache struct {
	buf          device.Buffer
	spec         kernels.CacheSpec
	bytes        int64
	keys, values int // bytes of a page of one head
}

func (c *cache) Spec() kernels.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }
func (c *cache) Free() error             { return c.buf.Free() }

// cacheSizes returns the bytes of one head's keys, of its values, and of the
// whole cache.
func cacheSizes(s kernels.CacheSpec) (keys, values, all int64, err error) {
	if err := s.Check(); err != nil {
		return 0, 0, 0, err
	}
	_, size := s.Type.Block()
	dim := int64(s.HeadDim)
	tooLarge := fmt.Errorf("a key/value cache of %d pages of %d heads of %d elements is more than memory can hold", s.Pages, s.Heads, s.HeadDim)
	if dim > math.MaxInt64>>12 {
		return 0, 0, 0, tooLarge
	}
	if s.Type == kernels.Q8_0 {
		keys = dim / 32 * int64(size) * kernels.PageTokens
		values = keys
	} else {
		keys = dim * int64(size) * kernels.PageTokens
		values = (dim + panel.Lanes - 1) / panel.Lanes * panel.Lanes * int64(size) * kernels.PageTokens
	}
	heads, pages := int64(s.Heads), int64(s.Pages)
	if heads > math.MaxInt64/(keys+values) || pages > math.MaxInt64/(keys+values)/heads {
		return 0, 0, 0, tooLarge
	}
	return keys, values, (keys + values) * heads * pages, nil
}

func (backend) CacheBytes(s kernels.CacheSpec) (int64, error) {
	_, _, all, err := cacheSizes(s)
	return all, err
}

func (q *queue) NewCache(s kernels.CacheSpec) (kernels.Cache, error) {
	keys, values, all, err := cacheSizes(s)
	if err != nil {
		return nil, err
	}
	buf, err := q.Device().Alloc(all)
	if err != nil {
		return nil, fmt.Errorf("key/value cache of %d pages: %w", s.Pages, err)
	}
	return &cache{buf: buf, spec: s, bytes: all, keys: int(keys), values: int(values)}, nil
}

// cache returns a cache of this backend with its memory.
func (a *args) cache(c kernels.Cache) (*cache, []byte) {
	v, ok := c.(*cache)
	if !ok || v == nil {
		a.fail("the cache is not of a CPU device: it is %T", c)
		return nil, nil
	}
	mem := v.buf.Bytes()
	if int64(len(mem)) < v.bytes {
		a.fail("the cache has been freed")
		return nil, nil
	}
	return v, mem[:v.bytes]
}

// page returns the keys and the values of a head on a page.
func (c *cache) page(mem []byte, page, head int) (keys, values []byte) {
	mem = mem[(page*c.spec.Heads+head)*(c.keys+c.values):]
	return mem[:c.keys], mem[c.keys:][:c.values]
}

// store is the work of one StoreKV; its unit is a row.
type store struct {
	kern  *panel.Kernels
	cache *cache
	mem   []byte
	k, v  []float32
	h     header
	parts int

	half   []uint16 // for each worker, a row's key and value in F16
	halves scratch  // holds half
}

func (q *queue) StoreKV(c kernels.Cache, k, v kernels.Tensor, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "StoreKV"}
	j := &q.store
	if j.cache, j.mem = a.cache(c); j.cache == nil {
		q.ready(&a)
		return
	}
	s := &j.cache.spec
	j.k = a.floats("k", k, k.Rows, s.Heads*s.HeadDim)
	j.v = a.floats("v", v, k.Rows, s.Heads*s.HeadDim)
	j.h = a.header(rows, k.Rows)
	for r, p := range j.h.positions {
		if p < 0 {
			a.fail("row %d is at position %d", r, p)
			break
		}
		a.page(&j.h, r, int(p)/kernels.PageTokens, s.Pages)
	}
	if !q.ready(&a) || len(j.k) == 0 {
		return
	}
	if s.Type == kernels.F16 {
		mem, err := j.halves.take(q.Device(), 4*int64(k.Cols)*int64(q.Workers()))
		if err != nil {
			q.Fail(fmt.Errorf("StoreKV: %w", err))
			return
		}
		j.half = uint16s(mem)
	}
	j.parts = parts(k.Rows, 3*float64(len(j.k)))
	q.Parallel(j.parts, j)
}

// Do stores a span of the rows.
func (j *store) Do(part, worker int) {
	s := &j.cache.spec
	width := s.Heads * s.HeadDim
	from, to := span(part, j.parts, len(j.h.positions))
	for r := from; r < to; r++ {
		k, v := j.k[r*width:][:width], j.v[r*width:][:width]
		switch s.Type {
		case kernels.F32:
			storeRow(j, r, k, v)
		case kernels.F16:
			half := j.half[worker*2*width:][:2*width]
			j.kern.F16(half[:width], k)
			j.kern.F16(half[width:], v)
			storeRow(j, r, half[:width], half[width:])
		case kernels.Q8_0:
			j.storeBlocks(r, k, v)
		}
	}
}

// head returns where a head of a row is stored: the keys and the values of its
// page, and the number of the row's position on it.
func (j *store) head(r, head int) (keys, values []byte, token int) {
	position := int(j.h.positions[r])
	page := j.h.page(r, position/kernels.PageTokens)
	keys, values = j.cache.page(j.mem, page, head)
	return keys, values, position % kernels.PageTokens
}

// storeRow puts a row's key and value, rounded to the cache's type, into panels.
func storeRow[T float32 | uint16](j *store, r int, k, v []T) {
	const lanes, tokens = panel.Lanes, kernels.PageTokens
	dim := j.cache.spec.HeadDim
	for head := range j.cache.spec.Heads {
		inKeys, inValues, token := j.head(r, head)
		keys := elementsOf[T](inKeys)[token/lanes*dim*lanes+token%lanes:]
		for d, x := range k[head*dim:][:dim] {
			keys[d*lanes] = x
		}
		values := elementsOf[T](inValues)[token*lanes:]
		for d := 0; d < dim; d += lanes {
			copy(values[d*tokens:][:min(lanes, dim-d)], v[head*dim+d:])
		}
	}
}

// storeBlocks puts a row's key and value into the pages in Q8_0.
func (j *store) storeBlocks(r int, k, v []float32) {
	const lanes, size = panel.Lanes, panel.Block
	dim := j.cache.spec.HeadDim
	var b block
	for head := range j.cache.spec.Heads {
		keys, values, token := j.head(r, head)
		keys = keys[token/lanes*len(keys)/2:]
		values = values[token*len(values)/kernels.PageTokens:]
		for d := 0; d < dim; d += size {
			b.round(k[head*dim+d:][:size])
			binary.LittleEndian.PutUint16(keys[token%lanes*2:], b.scale)
			q := keys[2*lanes+token%lanes:]
			for i, x := range b.q {
				q[i*lanes] = byte(x)
			}
			keys = keys[(2+size)*lanes:]

			b.round(v[head*dim+d:][:size])
			binary.LittleEndian.PutUint16(values, b.scale)
			for i, x := range b.q {
				values[2+i] = byte(x)
			}
			values = values[2+size:]
		}
	}
}

// block is 32 numbers in Q8_0: d·q, with d in F16.
type block struct {
	scale uint16
	q     [panel.Block]int8
}

// round makes b of x: d = max|x|/127 rounded to F16, then q = x·(1/d) by the
// rounded d, half to even, within ±127. A block with an infinity or a NaN gets a d
// of NaN, so that what is wrong shows.
func (b *block) round(x []float32) {
	largest, sum := float32(0), float32(0)
	for _, v := range x {
		largest = max(largest, v, -v)
		sum += v - v // NaN if v is no finite number
	}
	b.scale = kernels.Float16bits(largest/127 + sum)
	inverse := 1 / kernels.Float16frombits(b.scale)
	if inverse-inverse != 0 { // the scale is 0, or no number
		b.q = [panel.Block]int8{}
		return
	}
	for i, v := range x[:panel.Block] {
		b.q[i] = int8(max(-127, min(127, math.RoundToEven(float64(v*inverse)))))
	}
}
