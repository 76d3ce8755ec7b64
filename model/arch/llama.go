package arch

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

func init() { register("llama", buildLlama) }

// llama is the architecture of Touvron et al., "LLaMA" (2023) and "Llama 2"
// (2023): blocks of grouped-query attention with rotary positions and a gated
// feed-forward network, each behind an RMSNorm and added to its input.
type llama struct {
	width, heads, kvHeads, headDim, hidden int
	eps                                    float32
}

func buildLlama(f *gguf.File) (*Model, error) {
	k := &keys{file: f, prefix: "llama."}
	k.without("expert_count", "experts (Mixtral) are")
	k.without("attention.sliding_window", "sliding windows are")
	k.unscaled()
	k.plain()
	a := llama{
		width:  k.size("embedding_length", 0),
		heads:  k.size("attention.head_count", 0),
		hidden: k.size("feed_forward_length", 0),
		eps:    float32(k.number("attention.layer_norm_rms_epsilon", 0)),
	}
	a.kvHeads = k.size("attention.head_count_kv", a.heads)
	blocks := k.size("block_count", 0)
	context := k.size("context_length", 0)
	if k.err == nil && a.width%a.heads != 0 && !hasKey(f, "llama.attention.key_length") {
		k.wrong("key llama.embedding_length is %d, not a multiple of llama.attention.head_count %d", a.width, a.heads)
	}
	a.headDim = k.size("attention.key_length", max(1, a.width/a.heads))
	if v := k.size("attention.value_length", a.headDim); v != a.headDim {
		k.wrong("key llama.attention.value_length is %d and key_length %d: different lengths are not supported yet", v, a.headDim)
	}
	rotated := k.size("rope.dimension_count", a.headDim)
	base := k.number("rope.freq_base", 10000)
	switch {
	case k.err != nil:
	case a.heads%a.kvHeads != 0:
		k.wrong("key llama.attention.head_count is %d, not a multiple of head_count_kv %d", a.heads, a.kvHeads)
	case int64(a.heads)*int64(a.headDim) > math.MaxInt32:
		k.wrong("%d heads of %d elements are more than Leat can address", a.heads, a.headDim)
	case rotated%2 != 0 || rotated > a.headDim:
		k.wrong("key llama.rope.dimension_count is %d: it must be even and at most the head's %d", rotated, a.headDim)
	case blocks > len(f.Tensors()):
		k.wrong("key llama.block_count is %d, but the file has %d tensors", blocks, len(f.Tensors()))
	}
	if k.err != nil {
		return nil, k.err
	}

	t := take(f)
	vocab := t.rows("token_embd.weight", a.width)
	table := &shared{matrix: t.matrix("token_embd.weight", vocab, a.width)}
	layers := []stage.Layer{&embedding{table}}
	var frequencies kernels.Matrix
	for i := range blocks {
		layers = append(layers, a.block(t, i, &frequencies))
	}
	output := table
	if _, ok := f.Tensor("output.weight"); ok {
		output = &shared{matrix: t.matrix("output.weight", vocab, a.width)}
	}
	layers = append(layers, &head{norm: t.vector("output_norm.weight", a.width), output: output, eps: a.eps})
	t.rest()
	if size := k.size("vocab_size", vocab); size != vocab {
		k.wrong("key llama.vocab_size is %d, but the embedding has %d rows", size, vocab)
	}
	if t.err != nil {
		return nil, t.err
	}
	// Made last: only now have the tensors borne out that heads are so large.
	frequencies = rope(rotated, base)
	return &Model{Layers: layers, Vocab: vocab, Context: context, Width: a.width}, k.err
}

func hasKey(f *gguf.File, key string) bool {
	_, ok := f.Value(key)
	return ok
}

// rope is the frequencies θᵢ = base^(-2i/d) for the d/2 pairs of a head.
func rope(d int, base float64) kernels.Matrix {
	var data []byte
	for i := range d / 2 {
		theta := float32(math.Pow(base, -2*float64(i)/float64(d)))
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(theta))
	}
	return kernels.Matrix{Name: "rope frequencies", Type: kernels.F32, Rows: 1, Cols: d / 2, Data: data}
}

// llamaBlock is one block: what it is made of, in the file.
type llamaBlock struct {
	llama
	number                    int
	attnNorm, q, k, v, output kernels.Matrix
	ffnNorm, gate, up, down   kernels.Matrix
	frequencies               *kernels.Matrix // the same for all blocks
}

func (a llama) block(t *tensors, i int, frequencies *kernels.Matrix) *llamaBlock {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", i, part) }
	qWidth, kvWidth := a.heads*a.headDim, a.kvHeads*a.headDim
	return &llamaBlock{
		llama:       a,
		number:      i,
		attnNorm:    t.vector(name("attn_norm"), a.width),
		q:           t.matrix(name("attn_q"), qWidth, a.width),
		k:           t.matrix(name("attn_k"), kvWidth, a.width),
		v:           t.matrix(name("attn_v"), kvWidth, a.width),
		output:      t.matrix(name("attn_output"), a.width, qWidth),
		ffnNorm:     t.vector(name("ffn_norm"), a.width),
		gate:        t.matrix(name("ffn_gate"), a.hidden, a.width),
		up:          t.matrix(name("ffn_up"), a.hidden, a.width),
		down:        t.matrix(name("ffn_down"), a.width, a.hidden),
		frequencies: frequencies,
	}
}

func (l *llamaBlock) Name() string { return fmt.Sprintf("block %d", l.number) }

func (l *llamaBlock) Shape() stage.Shape {
	attention := l.width + 2*l.heads*l.headDim + 2*l.kvHeads*l.headDim
	return stage.Shape{
		Width:     l.width,
		Scratch:   max(attention, l.width+2*l.hidden),
		Quantized: quantized(l.q, l.k, l.v, l.output, l.gate, l.up, l.down),
	}
}

func (l *llamaBlock) cacheSpec(c stage.Config) kernels.CacheSpec {
	return kernels.CacheSpec{Type: c.KV, Heads: l.kvHeads, HeadDim: l.headDim, Pages: c.Pages}
}

func (l *llamaBlock) Cost(d device.Info, c stage.Config) (packer.Cost, error) {
	spec := l.cacheSpec(c)
	return cost(d, []kernels.Matrix{l.attnNorm, l.q, l.k, l.v, l.output,
		l.ffnNorm, l.gate, l.up, l.down, *l.frequencies}, &spec)
}

func (l *llamaBlock) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r := &llamaRunner{weights: weights{ctx: ctx, queue: q}, llama: l.llama}
	r.attnNorm = r.pack(l.attnNorm)
	r.qkv[0].W, r.qkv[1].W, r.qkv[2].W = r.pack(l.q), r.pack(l.k), r.pack(l.v)
	r.output[0].W = r.pack(l.output)
	r.ffnNorm = r.pack(l.ffnNorm)
	r.gateUp[0].W, r.gateUp[1].W = r.pack(l.gate), r.pack(l.up)
	r.down[0].W = r.pack(l.down)
	r.rotation = kernels.Rotation{HeadDim: l.headDim, Frequencies: r.pack(*l.frequencies)}
	r.cached = r.cache(l.cacheSpec(c))
	return r, r.loaded()
}

// llamaRunner is a block on its device. The products are kept so that a batch
// allocates nothing.
type llamaRunner struct {
	weights
	llama
	attnNorm, ffnNorm kernels.Weight
	qkv               [3]kernels.Product
	gateUp            [2]kernels.Product
	output, down      [1]kernels.Product
	rotation          kernels.Rotation
	cached            kernels.Cache
}

func (r *llamaRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	n, qWidth, kvWidth := in.Rows, r.heads*r.headDim, r.kvHeads*r.headDim

	normed, work := stage.Floats(p.Work, n, r.width)
	queries, rest := stage.Floats(work, n, qWidth)
	keys, rest := stage.Floats(rest, n, kvWidth)
	values, rest := stage.Floats(rest, n, kvWidth)
	attended, _ := stage.Floats(rest, n, qWidth)

	q.RMSNorm(normed, in, kernels.NormSpec{Gain: r.attnNorm, Eps: r.eps})
	r.qkv[0].Dst, r.qkv[1].Dst, r.qkv[2].Dst = queries, keys, values
	q.MatMul(normed, r.qkv[:])
	q.RoPE(queries, r.rotation, p.Rows)
	q.RoPE(keys, r.rotation, p.Rows)
	q.StoreKV(r.cached, keys, values, p.Rows)
	q.Attention(attended, queries, r.cached, kernels.AttentionSpec{Scale: float32(1 / math.Sqrt(float64(r.headDim)))}, p.Rows)
	r.output[0].Dst = out
	q.MatMul(attended, r.output[:])
	q.Add(out, in)

	gate, rest := stage.Floats(work, n, r.hidden)
	up, _ := stage.Floats(rest, n, r.hidden)
	q.RMSNorm(normed, out, kernels.NormSpec{Gain: r.ffnNorm, Eps: r.eps})
	r.gateUp[0].Dst, r.gateUp[1].Dst = gate, up
	q.MatMul(normed, r.gateUp[:])
	q.Gated(gate, gate, up, kernels.SiLU)
	r.down[0].Dst = normed // its rows have been read
	q.MatMul(gate, r.down[:])
	q.Add(out, normed)
	return nil
}
