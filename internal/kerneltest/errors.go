package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// trial is an op on random numbers: what a rig makes of it, what float64 does,
// and the size of each element's terms, which errors are measured by.
type trial struct {
	on         func(r *Rig) []float32
	want, size []float64
}

func (c *trial) add(want, size float64) { c.want, c.size = append(c.want, want), append(c.size, size) }

// far returns the largest error of a rig's result.
func (c *trial) far(r *Rig) (far float64) {
	r.Helper()
	got := c.on(r)
	require.Equal(r, len(c.want), len(got))
	for i, w := range c.want {
		if off := math.Abs(float64(got[i]) - w); off > 0 || off != off {
			far = max(far, off/c.size[i])
		}
	}
	return far
}

// judged is an op with the error that it may have, and why.
type judged struct {
	op, typ string
	against string
	bound   float64
	trial   func(rng *rand.Rand) trial
}

// between returns a random number from a to b.
func between(rng *rand.Rand, a, b int) int { return a + rng.IntN(b-a+1) }

func judgedOps(b Backend, roundsBF16 bool) (all []judged) {
	for _, typ := range b.types() {
		all = append(all, judged{"Embed", typ.String(), "the number", 0, func(rng *rand.Rand) trial { return embedTrial(rng, typ) }})
	}
	all = append(all,
		// Up to 3 columns a thread and 8 halvings are summed under the root, and 5 more roundings follow.
		judged{"RMSNorm", "F32", "the result", (11./2 + 5) * ulp, normTrial},
		judged{"RoPE", "F32", "abs a + abs b of a pair", 2e-7 + 2*ulp, ropeTrial},
		judged{"Gated by SiLU", "F32", "the result", 8 * ulp, gatedTrial},
		judged{"LayerNorm", "F32", "(1 + the normalized)·gain + bias", (2*11 + 20) * ulp, layerNormTrial},
		judged{"Add", "F32", "the result", ulp, addTrial})
	for _, typ := range b.types() {
		if !typ.Quantized() {
			// A segment of 256 columns, up to 3 of them, and without FMA a product each.
			bound := (256 + 3 + 1) * ulp
			if typ == kernels.BF16 && roundsBF16 {
				bound += 1. / 256
			}
			all = append(all, judged{"MatMul", typ.String(), "Σ abs(w·x)", bound,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, false) }})
			continue
		}
		// Up to 24 blocks, each of 5 roundings, and their sums.
		all = append(all,
			judged{"MatMul", typ.String(), "Σ abs(w·x), x rounded to int8", (24 + 3 + 5) * ulp,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, true) }},
			judged{"MatMul", typ.String(), "Σ abs(w)·max(abs x) a block, x as it is", 1./254 + 40*ulp,
				func(rng *rand.Rand) trial { return productTrial(rng, typ, false) }})
	}
	for _, typ := range CacheTypes {
		// A score of up to 128 random terms is off by about √128 roundings, and its weight by as much. This
		// is 5 times that; the worst that could be is far more, of terms that all round one way.
		all = append(all, judged{"Attention", typ.String() + " pages", "Σ p·abs(v)", 64 * ulp,
			func(rng *rand.Rand) trial { return attentionTrial(rng, typ) }})
	}
	return all
}

// Errors prints the largest error of every op and type on a device and on the CPU's
// portable kernels, which have the same bound.
func Errors(t *testing.T, b Backend) {
	ours, theirs := b.Rig(t), Backend{}.On(t, Portable(t))
	var table strings.Builder
	fmt.Fprintf(&table, "\n| op | type | relative to | bound | %s | portable CPU |\n|---|---|---|---|---|---|\n", ours.Q.Device().Info().Name)
	rng := NewRand(100)
	for _, o := range judgedOps(b, ours.roundsBF16()) {
		var here, there float64
		for range 3 {
			c := o.trial(rng)
			here, there = max(here, c.far(ours)), max(there, c.far(theirs))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %.1e | %.1e | %.1e |\n", o.op, o.typ, o.against, o.bound, here, there)
		require.LessOrEqual(t, here, o.bound, "%s of %s", o.op, o.typ)
		require.LessOrEqual(t, there, o.bound, "%s of %s on the portable CPU", o.op, o.typ)
	}
	t.Log(table.String())
}
