package gpu

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// cache is one layer's pages, laid out as source/params.h draws them.
type cache struct {
	buf   device.Buffer
	spec  kernels.CacheSpec
	bytes int64
}

func (c *cache) Spec() kernels.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }
func (c *cache) Free() error             { return c.buf.Free() }

func (backend) CacheBytes(s kernels.CacheSpec) (int64, error) {
	size, err := pagesBytes(s)
	return wholePages(size), err
}

// pagesBytes is the size of a cache's pages.
func pagesBytes(s kernels.CacheSpec) (int64, error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	if most := mostBlocks * threads; s.HeadDim > most {
		return 0, fmt.Errorf("a key/value cache of heads of %d elements: a GPU's may have up to %d", s.HeadDim, most)
	}
	_, size := s.Type.Block()
	row := int64(s.HeadDim) // bytes of a position's key, or value, of one head
	if s.Type == kernels.Q8_0 {
		row = row / block * int64(size)
	} else {
		row = (row*int64(size) + chunk - 1) / chunk * chunk
	}
	head, heads, pages := 2*kernels.PageTokens*row, int64(s.Heads), int64(s.Pages)
	if heads > mostBlocks || pages > math.MaxInt32 || pages > (math.MaxInt64-page)/(head*heads) {
		return 0, fmt.Errorf("a key/value cache of %d pages of %d heads of %d elements is more than memory can hold", s.Pages, s.Heads, s.HeadDim)
	}
	return head * heads * pages, nil
}

func (q *queue) NewCache(s kernels.CacheSpec) (kernels.Cache, error) {
	bytes, err := backend{}.CacheBytes(s)
	if err != nil {
		return nil, err
	}
	buf, err := q.Device().Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("key/value cache of %d pages: %w", s.Pages, err)
	}
	return &cache{buf: buf, spec: s, bytes: bytes}, nil
}

func (q *queue) StoreKV(c kernels.Cache, k, v kernels.Tensor, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "StoreKV", device: q.Device()}
	into, at := a.cache(c)
	if into == nil {
		q.ready(&a)
		return
	}
	s := &into.spec
	p := &q.storeKV
	*p = storeKVParams{
		cache:  at,
		k:      a.floats("k", k, k.Rows, s.Heads*s.HeadDim).at,
		v:      a.floats("v", v, k.Rows, s.Heads*s.HeadDim).at,
		header: a.header(rows, k.Rows),
		status: q.status,
		rows:   int32(k.Rows), heads: int32(s.Heads), dim: int32(s.HeadDim),
		pages: int32(s.Pages), base: a.base(rows, s.Pages),
		outputs: int32(rows.Outputs), words: int32(rows.Pages),
	}
	if q.ready(&a) {
		launch(q, q.functions.storeKV[s.Type], p, k.Rows, s.Heads, 1)
	}
}

func (q *queue) Attention(dst, query kernels.Tensor, c kernels.Cache, spec kernels.AttentionSpec, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Attention", device: q.Device()}
	from, at := a.cache(c)
	if from == nil {
		q.ready(&a)
		return
	}
	s := &from.spec
	in := a.floats("q", query, query.Rows, query.Cols)
	out := a.floats("dst", dst, query.Rows, query.Cols)
	if in.overlaps(out) {
		a.fail("dst lies over q")
	}
	p := &q.attention
	*p = attentionParams{
		dst: out.at, q: in.at, cache: at,
		header: a.header(rows, query.Rows),
		status: q.status,
		scale:  spec.Scale, cap: spec.SoftCap, window: int32(min(spec.Window, math.MaxInt32)),
		rows: int32(query.Rows), dim: int32(s.HeadDim),
		pages: int32(s.Pages), base: a.base(rows, s.Pages),
		outputs: int32(rows.Outputs), words: int32(rows.Pages),
	}
	if err := spec.Check(); err != nil {
		a.fail("%w", err)
	}
	heads := query.Cols / s.HeadDim
	switch {
	case query.Cols%(s.Heads*s.HeadDim) != 0:
		a.fail("q has %d columns, which are not whole heads of %d, a multiple of the cache's %d", query.Cols, s.HeadDim, s.Heads)
	case heads > mostBlocks:
		a.fail("q has %d heads, a GPU's attention takes up to %d", heads, mostBlocks)
	}
	p.heads, p.group = int32(heads), int32(heads/s.Heads)
	if spec.Sinks != nil {
		_, p.sinks = a.vector("Sinks", spec.Sinks, heads)
		p.sunk = 1
	}
	if spec.Slopes != nil {
		_, p.slopes = a.vector("Slopes", spec.Slopes, heads)
		p.sloped = 1
	}
	f := q.functions.attention[s.Type]
	if p.window > 0 || p.cap > 0 || p.sunk+p.sloped > 0 {
		f = q.functions.various[s.Type]
	}
	if q.ready(&a) {
		launch(q, f, p, query.Rows, heads, (s.HeadDim+threads-1)/threads)
	}
}
