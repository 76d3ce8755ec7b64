package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// ulp is half a unit in the last place of 1, what a rounding adds.
const ulp = 0x1p-24

// SameBits compares floats by their bits, NaNs of any payload being equal.
func SameBits(t testing.TB, want, got []float32, what string, v ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && (want[i] == want[i] || got[i] == got[i]) {
			require.Failf(t, "bits differ", what+": element %d is %v, it must be %v", append(v, i, got[i], want[i])...)
		}
	}
}

// Distance is ‖a−b‖/‖b‖; NaN where one has another length than the other, or b is 0.
func Distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var off, size float64
	for i := range b {
		d := float64(a[i]) - float64(b[i])
		off += d * d
		size += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(off / size)
}

// near compares with numbers from float64, each within a relative bound.
func near(t testing.TB, want []float64, got []float32, bound float64, what string) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i, w := range want {
		if !(math.Abs(w-float64(got[i])) <= bound*max(math.Abs(w), 1e-30)) {
			require.Failf(t, "too far off", "%s: element %d is %v, it must be %v", what, i, got[i], w)
		}
	}
}

// eachCut runs an op on n rows on all rigs, whole, and on the first row by row, and
// returns the result that all must have. op prepares a rig and returns what computes
// the rows from to to-1.
func eachCut(t *testing.T, rigs []*Rig, n int, op func(r *Rig) func(from, to int) []float32) (whole []float32) {
	t.Helper()
	for i, r := range rigs {
		on := op(r)
		if i > 0 {
			SameBits(t, whole, on(0, n), "on %s", r.Q.Device().Info().Name)
			continue
		}
		whole = on(0, n)
		var single []float32
		for row := range n {
			single = append(single, on(row, row+1)...)
		}
		SameBits(t, whole, single, "row by row")
	}
	return whole
}
