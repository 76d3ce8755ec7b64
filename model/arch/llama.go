package arch

func init() { declare("llama", llama) }

// llama is the architecture of Touvron et al., "LLaMA" (2023) and "Llama 2"
// (2023), and of Llama 3. Some that were trained after them have biases.
func llama(k *keys) decoder {
	d := k.decoder()
	for i := range d.blocks {
		a, f := k.attention(i), k.swiGLU(i)
		a.bias, a.outputBias, f.bias = optional, optional, optional
		a.rope.factors = optional
		d.blocks[i] = llamaBlock(k, a, f)
	}
	d.head = head{norm: k.rmsNorm("output_norm")}
	return d
}

// llamaBlock is attention and a feed-forward layer, each behind an RMSNorm and
// added to its input: the block of llama and of most families after it.
func llamaBlock(k *keys, a attention, f feedForward) block {
	return block{
		{before: k.rmsNorm("attn_norm"), part: a},
		{before: k.rmsNorm("ffn_norm"), part: f},
	}
}
