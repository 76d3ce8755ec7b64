package main

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/kernels"
)

// measureOps measures the ops that only move memory.
func (c *check) measureOps(ctx context.Context) error {
	table := section{
		title: "Other ops",
		table: [][]string{{"op", "a row", "1 row, µs", fmt.Sprintf("%d rows, µs", c.sizes.many), "GB/s", "of copying"}},
		note:  "A row alone takes about what a launch does. What fits the GPU's cache may be faster than copying memory.",
	}
	err := c.onGPU(func(g *gpu) error {
		ops, err := c.ops(ctx, g)
		if err != nil {
			return err
		}
		for _, op := range ops {
			row := []string{op.name, op.row}
			var w work
			for _, n := range []int{1, c.sizes.many} {
				took, err := g.time(ctx, func() { op.run(n) })
				if err != nil {
					return fmt.Errorf("%s: %w", op.name, err)
				}
				row = append(row, micros(took))
				if w.bytes = float64(n) * op.bytes; n == c.sizes.many {
					row = append(row, giga(w.bytes/took.Seconds()), c.ofCeiling(w, took))
				}
			}
			table.table = append(table.table, row)
		}
		return nil
	})
	c.report.add(table)
	return err
}

// op is one to measure.
type op struct {
	name, row string
	bytes     float64 // that it reads and writes a row
	run       func(rows int)
}

// ops are all but products and attention, with what they work on.
func (c *check) ops(ctx context.Context, g *gpu) ([]op, error) {
	s, q := c.sizes, g.q
	x, y := g.tensor(ctx, s.many, s.width), g.tensor(ctx, s.many, s.width)
	gate, up := g.tensor(ctx, s.many, s.hidden), g.tensor(ctx, s.many, s.hidden)
	heads := g.tensor(ctx, s.many, s.heads*s.dim)
	k, v := g.tensor(ctx, s.many, s.kvHeads*s.dim), g.tensor(ctx, s.many, s.kvHeads*s.dim)
	logits := g.tensor(ctx, s.many, s.vocab)
	best := g.tensor(ctx, s.many, 1)
	ids, values := g.tensor(ctx, s.many, 64), g.tensor(ctx, s.many, 64)
	best.Type, ids.Type = kernels.I32, kernels.I32

	gain := g.pack(ctx, vector(s.width))
	turn := kernels.Rotation{HeadDim: s.dim, Frequencies: g.pack(ctx, vector(s.dim/2)), Split: true}
	m, err := matrix(kernels.Q8_0, s.vocab, s.width)
	if err != nil {
		return nil, err
	}
	table := g.pack(ctx, m)
	spec := kernels.CacheSpec{Type: kernels.F16, Heads: s.kvHeads, HeadDim: s.dim, Pages: (s.many + kernels.PageTokens - 1) / kernels.PageTokens}
	made, err := q.NewCache(spec)
	cache := keep(&g.arena, made, err)
	headers := map[int]kernels.Rows{}
	for _, n := range []int{1, s.many} {
		var h kernels.Header
		pages := make([]int32, spec.Pages)
		for i := range pages {
			pages[i] = int32(i)
		}
		first := h.Table(pages)
		for i := range n {
			h.Append(int32(i*7919%s.vocab), int32(i), first, true)
		}
		headers[n] = g.rows(ctx, &h)
	}
	if g.err != nil {
		return nil, g.err
	}

	topK, ok := q.(kernels.TopKer)
	if !ok {
		return nil, fmt.Errorf("the kernels of %s have no TopK", q.Device().Info().Name)
	}
	float := func(numbers int) float64 { return 4 * float64(numbers) }
	token := float64(cache.Bytes()) / float64(spec.Pages*kernels.PageTokens)
	return []op{
		{"Embed of Q8_0", fmt.Sprint(s.width), float(s.width) + float64(table.Bytes())/float64(s.vocab), func(n int) { q.Embed(y.First(n), table, headers[n]) }},
		{"RMSNorm", fmt.Sprint(s.width), 2 * float(s.width), func(n int) { q.RMSNorm(y.First(n), x.First(n), kernels.NormSpec{Gain: gain, Eps: 1e-5}) }},
		{"RoPE", fmt.Sprintf("%d × %d", s.heads, s.dim), 2 * float(s.heads*s.dim), func(n int) { q.RoPE(heads.First(n), turn, headers[n]) }},
		{"StoreKV to F16", fmt.Sprintf("2 × %d × %d", s.kvHeads, s.dim), 2*float(s.kvHeads*s.dim) + token, func(n int) { q.StoreKV(cache, k.First(n), v.First(n), headers[n]) }},
		{"SwiGLU (Gated by SiLU)", fmt.Sprint(s.hidden), 3 * float(s.hidden), func(n int) { q.Gated(gate.First(n), gate.First(n), up.First(n), kernels.SiLU) }},
		{"Add", fmt.Sprint(s.width), 3 * float(s.width), func(n int) { q.Add(y.First(n), x.First(n)) }},
		{"Gather", fmt.Sprint(s.width), 2 * float(s.width), func(n int) { q.Gather(y.First(n), x.First(n), headers[n]) }},
		{"LayerNorm", fmt.Sprint(s.width), 2 * float(s.width), func(n int) { q.LayerNorm(y.First(n), x.First(n), kernels.NormSpec{Gain: gain, Eps: 1e-5}) }},
		{"GELU (Activate)", fmt.Sprint(s.hidden), 2 * float(s.hidden), func(n int) { q.Activate(gate.First(n), up.First(n), kernels.GELU) }},
		{"AddBias", fmt.Sprint(s.width), 2 * float(s.width), func(n int) { q.AddBias(y.First(n), gain) }},
		{"TopK of 64", fmt.Sprint(s.vocab), float(s.vocab), func(n int) { topK.TopK(ids.First(n), values.First(n), logits.First(n)) }},
		{"ArgMax", fmt.Sprint(s.vocab), float(s.vocab), func(n int) { q.ArgMax(best.First(n), logits.First(n)) }},
	}, nil
}

// vector is a gain, or frequencies, of numbers from 1 down.
func vector(n int) kernels.Matrix {
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = 1 / float32(i+1)
	}
	return kernels.Matrix{
		Name: "vector", Type: kernels.F32, Rows: 1, Cols: n,
		Data: unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), 4*n),
	}
}
