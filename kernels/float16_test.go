package kernels_test

import (
	"math"
	"testing"

	"github.com/leat-dev/leat/kernels"
	"github.com/stretchr/testify/require"
)

// exactHalf is the value of a finite binary16 number by the standard's formula.
func exactHalf(h uint16) float64 {
	v := math.Ldexp(float64(h&0x3ff), -24)
	if e := int(h >> 10 & 31); e != 0 {
		v = math.Ldexp(1024+float64(h&0x3ff), e-25)
	}
	if h>>15 != 0 {
		v = -v
	}
	return v
}

func TestFloat16ValuesAreExact(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got := kernels.Float16frombits(h)
		switch {
		case h&0x7fff > 0x7c00:
			require.True(t, got != got, "%#04x is NaN", h)
			require.Equal(t, h|0x200, kernels.Float16bits(got)|h&0x3ff, "%#04x stays a NaN of its sign", h)
		case h&0x7fff == 0x7c00:
			require.True(t, math.IsInf(float64(got), 1-2*int(h>>15)), "%#04x", h)
			require.Equal(t, h, kernels.Float16bits(got))
		default:
			require.Equal(t, math.Float64bits(exactHalf(h)), math.Float64bits(float64(got)), "%#04x", h)
			require.Equal(t, h, kernels.Float16bits(got))
		}
	}
}

// Between each pair of neighbours the midpoint goes to the even one, and the
// float32 next to it on either side to the nearer one.
func TestFloat16RoundsToNearestEven(t *testing.T) {
	for h := uint16(0); h < 0x7c00; h++ {
		low, high := exactHalf(h), 65536.0
		if h+1 < 0x7c00 {
			high = exactHalf(h + 1)
		}
		middle := float32((low + high) / 2)
		require.Equal(t, (low+high)/2, float64(middle), "a midpoint is a float32")
		even := h + h&1
		for sign, minus := range []uint16{0, 0x8000} {
			s := float32(1 - 2*sign)
			require.Equal(t, minus|even, kernels.Float16bits(s*middle), "%v", s*middle)
			require.Equal(t, minus|h, kernels.Float16bits(s*math.Nextafter32(middle, 0)), "below %v", s*middle)
			require.Equal(t, minus|(h+1), kernels.Float16bits(s*math.Nextafter32(middle, math.MaxFloat32)), "above %v", s*middle)
		}
	}
	require.Equal(t, uint16(0x7c00), kernels.Float16bits(math.MaxFloat32))
	require.Equal(t, uint16(0x8000), kernels.Float16bits(-math.SmallestNonzeroFloat32))
	require.Equal(t, uint16(0xfe00), kernels.Float16bits(math.Float32frombits(0xff800001)))
}
