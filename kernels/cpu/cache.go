package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/kernels/cpu/panel"
)

// cache is one layer's pages. A page holds, for each key/value head, the keys
// and then the values of its 32 positions. Of F32 and F16 both are panels, so
// that attention's two products are panel products:
//
//	keys:   | positions 0-15: [headDim][16] | positions 16-31: [headDim][16] |
//	values: | elements 0-15: [32 positions][16] | elements 16-31: … |
//
// with the elements filled up to a multiple of 16. Of Q8_0 both are 32 rows of
// blocks as a file has them, one a position.
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
	cache *cache
	mem   []byte
	k, v  []float32
	h     header
	parts int
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
	j.parts = parts(k.Rows, 6*float64(len(j.k)))
	q.Parallel(j.parts, j)
}

// Do stores a span of the rows.
func (j *store) Do(part, _ int) {
	s := &j.cache.spec
	from, to := span(part, j.parts, len(j.h.positions))
	for r := from; r < to; r++ {
		position := int(j.h.positions[r])
		page := int(j.h.pages[int(j.h.tables[r])+position/kernels.PageTokens])
		token := position % kernels.PageTokens
		for head := range s.Heads {
			at := (r*s.Heads + head) * s.HeadDim
			k, v := j.k[at:][:s.HeadDim], j.v[at:][:s.HeadDim]
			keys, values := j.cache.page(j.mem, page, head)
			switch s.Type {
			case kernels.F32:
				storeToken(float32s(keys), float32s(values), token, k, v, func(x float32) float32 { return x })
			case kernels.F16:
				storeToken(uint16s(keys), uint16s(values), token, k, v, kernels.Float16bits)
			case kernels.Q8_0:
				storeBlocks(keys[token*len(keys)/kernels.PageTokens:], k)
				storeBlocks(values[token*len(values)/kernels.PageTokens:], v)
			}
		}
	}
}

// storeToken puts a token's key and value into the panels of its page.
func storeToken[T float32 | uint16](keys, values []T, token int, k, v []float32, round func(float32) T) {
	const lanes, tokens = panel.Lanes, kernels.PageTokens
	keys = keys[token/lanes*len(k)*lanes+token%lanes:]
	for d, x := range k {
		keys[d*lanes] = round(x)
	}
	values = values[token*lanes:]
	for d, x := range v {
		values[d/lanes*tokens*lanes+d%lanes] = round(x)
	}
}

// storeBlocks writes x in Q8_0 blocks: d = max|x|/127 rounded to F16, then
// q = x·(1/d) by the rounded d, half to even, within ±127. A block with an
// infinity or a NaN gets a d of NaN, so that what is wrong shows.
func storeBlocks(dst []byte, x []float32) {
	for ; len(x) > 0; dst, x = dst[34:], x[32:] {
		largest, sum := float32(0), float32(0)
		for _, v := range x[:32] {
			largest = max(largest, v, -v)
			sum += v - v // NaN if v is no finite number
		}
		scale := kernels.Float16bits(largest/127 + sum)
		binary.LittleEndian.PutUint16(dst, scale)
		inverse := 1 / kernels.Float16frombits(scale)
		if inverse-inverse != 0 { // the scale is 0, or no number
			clear(dst[2:34])
			continue
		}
		for i, v := range x[:32] {
			dst[2+i] = byte(int8(max(-127, min(127, math.RoundToEven(float64(v*inverse))))))
		}
	}
}

// loadKey writes a key in Q8_0 blocks to its lane of a panel.
func loadKey(lane []float32, src []byte, dim int) {
	for d := 0; d < dim; d, src = d+32, src[34:] {
		scale := kernels.Float16frombits(binary.LittleEndian.Uint16(src))
		for i, q := range src[2:34] {
			lane[(d+i)*panel.Lanes] = scale * float32(int8(q))
		}
	}
}

// loadValue writes a value in Q8_0 blocks to its row of each panel.
func loadValue(row []float32, src []byte, dim int) {
	for d := 0; d < dim; d, src = d+32, src[34:] {
		scale := kernels.Float16frombits(binary.LittleEndian.Uint16(src))
		for i, q := range src[2:34] {
			row[(d+i)/panel.Lanes*kernels.PageTokens*panel.Lanes+i%panel.Lanes] = scale * float32(int8(q))
		}
	}
}
