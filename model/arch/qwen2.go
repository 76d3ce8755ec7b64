package arch

func init() { declare("qwen2", qwen2) }

// qwen2 is the architecture of Yang et al., "Qwen2 Technical Report" (2024), and of Qwen2.5. It
// differs from llama in the biases of queries, keys and values, and in the pairs of elements that
// are rotated.
func qwen2(k *keys) decoder {
	d := k.decoder()
	for i := range d.blocks {
		a := k.attention(i)
		a.bias, a.rope.split = required, true
		d.blocks[i] = llamaBlock(k, a, k.swiGLU(i))
	}
	d.head = head{norm: k.rmsNorm("output_norm"), bias: optional}
	return d
}
