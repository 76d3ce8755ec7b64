package arch

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// variants are declarations by the reference file on which they are tested: those
// of the package (nil), and some of families that have members of a declaration
// which none of the package's own uses.
var variants = map[string]declaration{
	"llama-dense": nil,
	"qwen2-dense": nil,

	// Norms after the parts alone; queries and keys normalized as a whole; windows
	// in the blocks that the file says.
	"olmo2-dense": blocks(func(k *keys, i int, a attention, f feedForward) block {
		a.rope.split, a.bias = true, optional
		window := k.size("attention.sliding_window", 0)
		if windowed, _, _ := k.file.Ints(k.key("attention.sliding_window_pattern")); windowed[i] != 0 {
			a.window = window
		}
		a.qNorm, a.kNorm = k.rmsNorm("attn_q_norm"), k.rmsNorm("attn_k_norm")
		return block{{part: a, after: k.rmsNorm("post_attention_norm")}, {part: f, after: k.rmsNorm("post_ffw_norm")}}
	}),

	// No rotation in every fourth block.
	"smollm3-dense": blocks(func(k *keys, i int, a attention, f feedForward) block {
		a.bias, a.outputBias = optional, optional
		f.bias = optional
		if (i+1)%4 == 0 {
			a.rope = rope{}
		}
		return llamaBlock(k, a, f)
	}),

	// Norms before and after the parts, windows in every other block, and all the caps.
	"gemma2-dense": func(k *keys) decoder {
		window := k.size("attention.sliding_window", 4096)
		d := blocks(func(k *keys, i int, a attention, f feedForward) block {
			a.rope.split, a.softCap, f.activation = true, 50, kernels.GELU
			a.bias = optional
			if i%2 == 0 {
				a.window = window
			}
			return block{
				{before: k.rmsNorm("attn_norm"), part: a, after: k.rmsNorm("post_attention_norm")},
				{before: k.rmsNorm("ffn_norm"), part: f, after: k.rmsNorm("post_ffw_norm")},
			}
		})(k)
		d.embedding.scale = float32(math.Sqrt(float64(d.width)))
		d.head.softCap = 30
		return d
	},

	// Factors wherever there may be one.
	"granite-dense": func(k *keys) decoder {
		residual := float32(k.number("residual_scale", 1))
		d := blocks(func(k *keys, _ int, a attention, f feedForward) block {
			a.scale = float32(k.number("attention.scale", 1/math.Sqrt(float64(a.heads.dim))))
			a.rope.factors = optional
			a.bias, a.outputBias, f.bias = optional, optional, optional
			b := llamaBlock(k, a, f)
			b[0].scale, b[1].scale = residual, residual
			return b
		})(k)
		d.embedding.scale = float32(k.number("embedding_scale", 1))
		d.head.scale = float32(1 / k.number("logit_scale", 1))
		return d
	},

	// Attention and feed-forward layer read the same normalized rows.
	"phi2-dense": layerNormed(func(k *keys, norm func(string) norm, a attention, f feedForward) block {
		a.rope.split = true
		return block{{before: norm("attn_norm"), part: sum{a, f}}}
	}),

	// Each of them has its own norm; queries, keys and values are one tensor.
	"falcon-dense": layerNormed(func(k *keys, norm func(string) norm, a attention, f feedForward) block {
		a.rope.split, a.outputBias, f.bias = true, none, none
		return block{{part: sum{normed{norm("attn_norm_2"), a}, normed{norm("attn_norm"), f}}}}
	}),

	// ALiBi, and a norm of the embedding.
	"bloom-dense": func(k *keys) decoder {
		d := layerNormed(func(k *keys, norm func(string) norm, a attention, f feedForward) block {
			a.rope, a.alibi = rope{}, 8
			return block{{before: norm("attn_norm"), part: a}, {before: norm("ffn_norm"), part: f}}
		})(k)
		d.embedding.norm = d.head.norm
		d.embedding.norm.tensor = "token_embd_norm"
		return d
	},

	// Squared ReLU.
	"nemotron-dense": layerNormed(func(k *keys, norm func(string) norm, a attention, f feedForward) block {
		a.rope.split, f.activation = true, kernels.ReLUSquared
		return block{{before: norm("attn_norm"), part: a}, {before: norm("ffn_norm"), part: f}}
	}),

	// One tensor for gate and up.
	"chatglm-dense": blocks(func(k *keys, _ int, a attention, f feedForward) block {
		a.bias = optional
		return llamaBlock(k, a, f)
	}),
}

// blocks is a family of the ways of llama, but for its blocks.
func blocks(of func(k *keys, i int, a attention, f feedForward) block) declaration {
	return func(k *keys) decoder {
		d := k.decoder()
		for i := range d.blocks {
			d.blocks[i] = of(k, i, k.attention(i), k.swiGLU(i))
		}
		d.head = head{norm: k.rmsNorm("output_norm"), bias: optional}
		return d
	}
}

// layerNormed is a family with layer norms, a feed-forward layer without a gate,
// and biases.
func layerNormed(of func(k *keys, norm func(string) norm, a attention, f feedForward) block) declaration {
	return func(k *keys) decoder {
		eps := float32(k.number("attention.layer_norm_epsilon", 0))
		layerNorm := func(tensor string) norm { return norm{layerNorm, tensor, optional, eps} }
		d := k.decoder()
		for i := range d.blocks {
			a, f := k.attention(i), k.swiGLU(i)
			a.bias, a.outputBias, f.bias = optional, optional, optional
			f.gated, f.activation = false, kernels.GELU
			d.blocks[i] = of(k, layerNorm, a, f)
		}
		d.head = head{norm: layerNorm("output_norm"), bias: optional}
		return d
	}
}
