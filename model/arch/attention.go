package arch

import (
	"math"
	"math/bits"

	"github.com/leat-dev/leat/internal/program"
)

// attention is causal grouped-query attention, in which each head of keys and values is used by
// a group of heads of queries (Ainslie et al., "GQA: Training Generalized Multi-Query
// Transformer Models from Multi-Head Checkpoints", 2023). Groups of one head are the multi-head
// attention of Vaswani et al., "Attention Is All You Need" (2017); a single group is the
// multi-query attention of Shazeer, "Fast Transformer Decoding" (2019).
//
// Its matrices are attn_output and attn_q, attn_k and attn_v. Instead of the latter three, the
// file may have attn_qkv, which has their rows in this order.
type attention struct {
	heads      heads
	bias       presence // of attn_q, attn_k and attn_v
	outputBias presence // of attn_output

	// qNorm and kNorm normalize queries and keys before the rotation (Henry et al.,
	// "Query-Key Normalization for Transformers", 2020). If the gain has the length of a
	// head, each head is normalized separately, and otherwise all heads together.
	qNorm, kNorm norm

	rope    rope
	scale   float32  // of the products of queries and keys; 0 means 1/√dim
	window  int      // the number of positions to which a row attends, including its own; 0 means all
	softCap float32  // the bound of the scores; 0 means none
	sinks   presence // attn_sinks, for each head a score that belongs to no value
	alibi   float32  // ALiBi: head h subtracts 2^(-alibi·h/heads) from a score for each position of distance; 0 means none (Press et al., "Train Short, Test Long", 2021)
}

// heads is the number of heads of queries, and of keys and values, and the number of elements in
// a head.
type heads struct{ queries, keys, dim int }

func (a attention) steps(b *builder, x program.Value) program.Value {
	h := a.heads
	product := b.linear
	if !b.has(b.prefix+"attn_q.weight") && b.has(b.prefix+"attn_qkv.weight") {
		product = func(x program.Value, ls ...linear) []program.Value { return b.fused(x, "attn_qkv", ls...) }
	}
	qkv := product(x,
		linear{"attn_q", h.queries * h.dim, a.bias},
		linear{"attn_k", h.keys * h.dim, a.bias},
		linear{"attn_v", h.keys * h.dim, a.bias})
	q, k, v := qkv[0], qkv[1], qkv[2]
	q, k = b.norm(q, a.qNorm, h.queries), b.norm(k, a.kNorm, h.keys)
	if a.rope != (rope{}) {
		frequencies := b.Weight(b.frequencies(a.rope))
		b.RoPE(q, h.dim, frequencies, a.rope.split)
		b.RoPE(k, h.dim, frequencies, a.rope.split)
	}
	cache := b.Cache(h.keys, h.dim)
	b.Store(cache, k, v)
	y := b.Attention(q, cache, a.spec(b))
	return b.linear(y, linear{"attn_output", b.width, a.outputBias})[0]
}

// spec returns the parameters of the attention op.
func (a attention) spec(b *builder) program.Attention {
	s := program.Attention{Scale: a.scale, Window: a.window, SoftCap: a.softCap}
	if s.Scale == 0 {
		s.Scale = float32(1 / math.Sqrt(float64(a.heads.dim)))
	}
	if name := b.prefix + "attn_sinks.weight"; b.finds(name, a.sinks) {
		s.Sinks = b.Weight(b.vector(name, a.heads.queries))
	}
	if a.alibi != 0 && b.err == nil {
		s.Slopes = b.Weight(computed("ALiBi slopes", alibi(a.heads.queries, float64(a.alibi))))
	}
	return s
}

// alibi returns the slopes of n heads (Press et al., 2021). For a power of two p, the slopes of p
// heads are the first p powers of 2^(-most/p). If n is not a power of two, let p be the largest
// one below n: the first p heads have the slopes of p heads, and the others every second one of
// the slopes of 2p heads.
func alibi(n int, most float64) []float32 {
	slopes := make([]float32, n)
	p := 1 << (bits.Len(uint(n)) - 1)
	for h := range slopes {
		exponent := float64(h+1) / float64(p)
		if h >= p {
			exponent = float64(2*(h-p)+1) / float64(2*p)
		}
		slopes[h] = float32(math.Exp2(-most * exponent))
	}
	return slopes
}
