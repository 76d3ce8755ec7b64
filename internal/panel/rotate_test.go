package panel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leat-dev/leat/internal/panel"
)

func TestRotationsAreTheSameAtEveryLevel(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(41, 42))
		for n := range 70 {
			pairs, cos, sin := randomFloats(rng, 2*n+1), make([]float32, n), make([]float32, n)
			halves := append([]float32(nil), pairs...)
			want := append([]float32(nil), pairs...)
			for i := range n {
				s, c := math.Sincos(rng.Float64() * 100)
				cos[i], sin[i] = float32(c), float32(s)
				a, b := pairs[2*i], pairs[2*i+1]
				want[2*i] = float32(a*cos[i]) - float32(b*sin[i])
				want[2*i+1] = float32(a*sin[i]) + float32(b*cos[i])
				halves[i], halves[n+i] = a, b
			}
			k.RotatePairs(pairs, cos, sin)
			requireSame(t, want, pairs, "%d pairs", n)
			k.RotateHalves(halves, cos, sin)
			for i := range n {
				requireSame(t, want[2*i:][:2], []float32{halves[i], halves[n+i]}, "pair %d of %d", i, n)
			}
			requireSame(t, want[2*n:], halves[2*n:], "what is behind %d pairs", n)
		}
		f := make([]float32, 16)
		assert.Panics(t, func() { k.RotatePairs(f[:15:15], f[:8], f) })
		assert.Panics(t, func() { k.RotatePairs(f, f[:8], f[:7:7]) })
		assert.Panics(t, func() { k.RotateHalves(f[:15:15], f[:8], f) })
		assert.Panics(t, func() { k.RotateHalves(f, f[:8], f[:7:7]) })
	})
}
