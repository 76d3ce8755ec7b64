package arch

import (
	"math"
	"math/bits"

	"github.com/leat-dev/leat/internal/program"
)

// attention is causal attention of heads that share keys and values in groups
// (Ainslie et al., "GQA", 2023): of as many as there are, as in Vaswani et al.,
// "Attention Is All You Need" (2017), or of all, as in Shazeer, "Fast Transformer
// Decoding" (2019).
//
// Its matrices are attn_q, attn_k and attn_v, or attn_qkv, which is their rows in
// this order, and attn_output.
type attention struct {
	heads      heads
	bias       presence // of attn_q, attn_k and attn_v
	outputBias presence // of attn_output

	// qNorm and kNorm normalize queries and keys before they are rotated: each
	// head, or all together, as the gain's length says (Henry et al., "Query-Key
	// Normalization for Transformers", 2020).
	qNorm, kNorm norm

	rope    rope
	scale   float32  // of the products of queries and keys; 0: 1/√dim
	window  int      // positions that a row attends to, its own among them; 0: all
	softCap float32  // bounds the scores; 0: they aren't
	sinks   presence // attn_sinks, a score for each head to which no value belongs
	alibi   float32  // scores fall with the distance, by slopes of 2^(-alibi·h/heads) a position; 0: they don't (Press et al., 2021)
}

// heads is how many heads of queries there are, and of keys and values, and how
// many elements a head has.
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

// spec is what the op needs to know.
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

// alibi is the slopes of n heads. Those of a power of two of heads, p, are the
// powers of 2^(-most/p); the heads beyond it have every other slope of 2p heads.
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
