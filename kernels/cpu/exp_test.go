package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every 61st float32 in the range: some 36 million.
func TestExpIsWithinItsBound(t *testing.T) {
	step := uint32(61)
	if testing.Short() {
		step = 6101
	}
	worst := 0.0
	for b := uint32(0); b < math.Float32bits(104); b += step {
		for _, x := range [2]float32{math.Float32frombits(b), -math.Float32frombits(b)} {
			want, got := math.Exp(float64(x)), float64(exp(x))
			switch {
			case want > math.MaxFloat32:
				if !math.IsInf(got, 1) && got != math.MaxFloat32 {
					t.Fatalf("exp(%v) = %v, it is too large for a float32", x, got)
				}
			case want >= 0x1p-126:
				worst = max(worst, math.Abs(got-want)/want)
			default:
				if math.Abs(got-want) >= 0x1p-149 {
					t.Fatalf("exp(%v) = %v, it is %v", x, got, want)
				}
			}
		}
	}
	t.Logf("largest relative error 2^%.2f", math.Log2(worst))
	require.Less(t, worst, 0x1p-23)
}

func TestExpAtTheEdges(t *testing.T) {
	inf := float32(math.Inf(1))
	require.Equal(t, inf, exp(inf))
	require.Equal(t, inf, exp(100))
	require.Equal(t, float32(0), exp(-inf))
	require.Equal(t, float32(0), exp(-105))
	require.Equal(t, float32(1), exp(0))
	require.Equal(t, float32(1), exp(float32(math.Copysign(0, -1))))
	nan := exp(float32(math.NaN()))
	require.True(t, nan != nan)
}

var sink float32

func BenchmarkExp(b *testing.B) {
	x := float32(-3)
	for b.Loop() {
		for i := range 1024 {
			sink += exp(x + float32(i)/1024)
		}
	}
}
