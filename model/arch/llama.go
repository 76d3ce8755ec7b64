package arch

func init() { declare("llama", llama) }

// llama is the architecture of Touvron et al., "LLaMA: Open and Efficient Foundation Language
// Models" and "Llama 2: Open Foundation and Fine-Tuned Chat Models" (2023), and of Llama 3. Some
// other models with that architecture have biases.
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

// llamaBlock returns the block of llama and of many later families: attention and a feed-forward
// network, each with an RMSNorm of its input and a residual connection.
func llamaBlock(k *keys, a attention, f feedForward) block {
	return block{
		{before: k.rmsNorm("attn_norm"), part: a},
		{before: k.rmsNorm("ffn_norm"), part: f},
	}
}
