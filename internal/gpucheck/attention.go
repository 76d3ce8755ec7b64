package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/leat-dev/leat/kernels"
)

// measureAttention measures attention over caches of every type: of one sequence that
// decodes, of several, and of a prompt.
func (c *check) measureAttention(ctx context.Context) error {
	s := c.sizes
	table := section{
		title: fmt.Sprintf("Attention: %d heads of %d, %d of keys and values", s.heads, s.dim, s.kvHeads),
		table: [][]string{{"cache, rows", "µs", "GB/s", "TFLOP/s", "of ceiling"}},
		note:  "The bytes are those of the cache that the rows see, each sequence's once; the multiply-adds are those of the scores and of the weighted values.",
	}
	err := c.onGPU(func(g *gpu) error {
		var longest time.Duration
		for _, typ := range []kernels.Type{kernels.F16, kernels.Q8_0, kernels.F32} {
			if !fits(ctx, longest) {
				c.report.skip(fmt.Sprintf("attention with a cache of %v", typ), "no time was left")
				continue
			}
			began := time.Now()
			var rows [][]string
			err := g.apart(func() (err error) {
				rows, err = c.measureCache(ctx, g, typ)
				return err
			})
			if err != nil {
				return fmt.Errorf("cache of %v: %w", typ, err)
			}
			table.table = append(table.table, rows...)
			longest = max(longest, time.Since(began))
			c.say("attention: %v done", typ)
		}
		return nil
	})
	c.report.add(table)
	return err
}

// measureCache returns the rows of one type of cache.
func (c *check) measureCache(ctx context.Context, g *gpu, typ kernels.Type) ([][]string, error) {
	s := c.sizes
	each := (s.context + kernels.PageTokens - 1) / kernels.PageTokens
	spec := kernels.CacheSpec{Type: typ, Heads: s.kvHeads, HeadDim: s.dim, Pages: each * s.conversations}
	made, err := g.q.NewCache(spec)
	cache := keep(&g.arena, made, err)
	k, v := g.tensor(ctx, s.many, s.kvHeads*s.dim), g.tensor(ctx, s.many, s.kvHeads*s.dim)
	q, out := g.tensor(ctx, s.many, s.heads*s.dim), g.tensor(ctx, s.many, s.heads*s.dim)
	if g.err != nil {
		return nil, g.err
	}

	// span is rows of a sequence, by their positions.
	span := func(h *kernels.Header, sequence, from, to int) {
		pages := make([]int32, each)
		for i := range pages {
			pages[i] = int32(i*s.conversations + sequence) // as turns come: not in a row
		}
		table := h.Table(pages)
		for p := from; p < to; p++ {
			h.Append(0, int32(p), table, false)
		}
	}
	var last []kernels.Rows // of each sequence
	all := new(kernels.Header)
	for i := range s.conversations {
		for from := 0; from < s.context; from += s.many {
			var h kernels.Header
			span(&h, i, from, min(from+s.many, s.context))
			rows := g.rows(ctx, &h)
			if g.err != nil {
				return nil, g.err
			}
			if err := g.once(ctx, func() { g.q.StoreKV(cache, k.First(rows.N), v.First(rows.N), rows) }); err != nil {
				return nil, err
			}
		}
		var h kernels.Header
		span(&h, i, s.context-1, s.context)
		last = append(last, g.rows(ctx, &h))
		span(all, i, s.context-1, s.context)
	}
	together := g.rows(ctx, all)
	var begin, end kernels.Header
	span(&begin, 0, 0, min(s.many, s.context))
	span(&end, 0, max(0, s.context-s.many), s.context)
	first, final := g.rows(ctx, &begin), g.rows(ctx, &end)
	if g.err != nil {
		return nil, g.err
	}

	scale := float32(1 / math.Sqrt(float64(s.dim)))
	attend := func(rows kernels.Rows) {
		g.q.Attention(out.First(rows.N), q.First(rows.N), cache, kernels.AttentionSpec{Scale: scale}, rows)
	}
	token := float64(cache.Bytes()) / float64(spec.Pages*kernels.PageTokens)                     // bytes of a position
	positions := func(from, to int) float64 { return float64(to-from) * float64(from+to+1) / 2 } // that rows see in all
	n := float64(s.conversations)
	var table [][]string
	for _, m := range []struct {
		name  string
		times float64 // that ops does it
		seen  float64 // positions whose bytes are read
		pairs float64 // of a row and a position
		ops   func()
	}{
		{fmt.Sprintf("1 row at position %d", s.context-1), n, float64(s.context), float64(s.context), func() {
			for _, r := range last { // of another sequence each time, so that none is in the GPU's cache
				attend(r)
			}
		}},
		{fmt.Sprintf("%d sequences' row at position %d", s.conversations, s.context-1), 1, n * float64(s.context), n * float64(s.context), func() { attend(together) }},
		{fmt.Sprintf("%d rows from position 0", first.N), 1, float64(first.N), positions(0, first.N), func() { attend(first) }},
		{fmt.Sprintf("%d rows from position %d", final.N, s.context-final.N), 1, float64(s.context), positions(s.context-final.N, s.context), func() { attend(final) }},
	} {
		took, err := g.time(ctx, m.ops)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		took = max(1, time.Duration(float64(took)/m.times))
		w := work{bytes: m.seen * token, macs: 2 * m.pairs * float64(s.heads*s.dim), rate: c.most.fma}
		table = append(table, []string{
			fmt.Sprintf("%v, %s", typ, m.name), micros(took),
			giga(w.bytes / took.Seconds()), tera(2 * w.macs / took.Seconds()), c.ofCeiling(w, took),
		})
	}
	return table, nil
}
