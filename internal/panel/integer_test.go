package panel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// TestEveryLevelIsThePortableTwin multiplies blocks of random bytes, so that scales too
// are whatever a file may hold: infinities, NaNs and numbers without a leading bit.
func TestEveryLevelIsThePortableTwin(t *testing.T) {
	portable := kernelsOf(t, "portable")
	rng := rand.New(rand.NewPCG(33, 34))
	for _, typ := range intTypes {
		for n := 1; n <= 20; n++ {
			m := randomBytes(rng, typ, 1+rng.IntN(40))
			p, _ := pack(m)
			a, yStride := activations(t, n, m.Cols), panel.Lanes+rng.IntN(5)
			quantizeAll(portable, a, extremes(rng, n*m.Cols))
			want := outputs(n, yStride)
			portable.Int(typ, p, m.Cols, a, 0, n, want, yStride)
			for _, level := range panel.Levels() {
				y := outputs(n, yStride)
				kernelsOf(t, level).Int(typ, p, m.Cols, a, 0, n, y, yStride)
				requireSame(t, want, y, "%s, %v, %d columns, %d rows", level, typ, m.Cols, n)
			}
		}
	}
}

// randomBytes returns up to 16 rows of a file's blocks, at most so many blocks of 32
// columns. In a quarter of the file's blocks all bytes are 0 or 255, which makes the
// codes the largest or smallest.
func randomBytes(rng *rand.Rand, typ kernels.Type, blocks int) kernels.Matrix {
	elems, size := typ.Block()
	perRow := max(1, blocks*panel.Block/elems)
	m := kernels.Matrix{Type: typ, Rows: 1 + rng.IntN(panel.Lanes), Cols: perRow * elems}
	m.Data = make([]byte, m.Rows*perRow*size)
	for at := 0; at < len(m.Data); at += size {
		var fill byte
		random := rng.IntN(4) > 0
		if rng.IntN(2) == 0 {
			fill = 255
		}
		for i := range m.Data[at:][:size] {
			m.Data[at+i] = fill
			if random || rng.IntN(16) == 0 {
				m.Data[at+i] = byte(rng.Uint32())
			}
		}
	}
	return m
}

// extremes returns random activations, of which many blocks have the largest sums that
// there are.
func extremes(rng *rand.Rand, n int) []float32 {
	x := randomFloats(rng, n)
	for b := 0; b < n; b += panel.Block {
		kind := rng.IntN(4)
		for i := range x[b:][:panel.Block] {
			switch kind {
			case 0:
				x[b+i] = 3
			case 1:
				x[b+i] = -3
			case 2:
				x[b+i] = 3 * float32(1-i/16*2)
			}
		}
	}
	return x
}

// TestPanelsMayHoldAnything multiplies panels of random bytes. What a file can't hold has
// no defined product, but must not be read past or written past.
func TestPanelsMayHoldAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	for _, typ := range intTypes {
		cols := elemsOf(typ) * 2
		stride, err := panel.Stride(typ, cols)
		require.NoError(t, err)
		p := make([]byte, stride)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		a := activations(t, 9, cols)
		quantizeAll(kernelsOf(t, "portable"), a, extremes(rng, 9*cols))
		for _, level := range panel.Levels() {
			y := outputs(9, panel.Lanes+3)
			kernelsOf(t, level).Int(typ, p, cols, a, 0, 9, y, panel.Lanes+3)
			requireGaps(t, y, panel.Lanes+3)
		}
	}
}
