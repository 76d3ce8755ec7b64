package arch

import (
	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
)

// feedForward is a feed-forward network of two products with an activation between them:
// ffn_down·f(ffn_up·x), or, if it is gated, ffn_down·(f(ffn_gate·x) ⊙ ffn_up·x), where ⊙ is the
// product of elements (Shazeer, "GLU Variants Improve Transformer", 2020). Instead of the two
// matrices, the file may have a single ffn_up with the rows of ffn_gate before those of ffn_up.
type feedForward struct {
	hidden     int // the number of outputs of ffn_up
	activation kernels.Activation
	gated      bool
	bias       presence // of each of the products
}

func (f feedForward) steps(b *builder, x program.Value) program.Value {
	gate, up := linear{"ffn_gate", f.hidden, f.bias}, linear{"ffn_up", f.hidden, f.bias}
	var h program.Value
	switch {
	case !f.gated:
		h = b.linear(x, up)[0]
		b.Activate(h, f.activation)
	case !b.has(b.prefix+"ffn_gate.weight") && b.hasRows(b.prefix+"ffn_up.weight", 2*f.hidden):
		h = b.gated(b.fused(x, "ffn_up", gate, up), f.activation)
	default:
		h = b.gated(b.linear(x, gate, up), f.activation)
	}
	return b.linear(h, linear{"ffn_down", b.width, f.bias})[0]
}

// gated returns the activation of the first of two values, multiplied by the second.
func (b *builder) gated(gateUp []program.Value, f kernels.Activation) program.Value {
	b.Gated(gateUp[0], gateUp[1], f)
	return gateUp[0]
}
