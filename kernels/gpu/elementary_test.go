package gpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// The kernels' own exponential over all that it is for, seen through SwiGLU (Gated by SiLU), whose
// gates below 0 give gate·e^gate/(1+e^gate): within 2^-23, and three roundings.
func TestExponential(t *testing.T) {
	r := gpu.Rig(t)
	const n = 1 << 17
	gate, up := make([]float32, 0, n+3000), []float32(nil)
	for i := range n {
		gate = append(gate, -110*float32(i)/n)
	}
	// Where the multiple of ln 2 that is taken away changes.
	for i := range 128 {
		edge := float32(-(float64(i) + 0.5) * math.Ln2)
		gate = append(gate, edge, math.Nextafter32(edge, 0), math.Nextafter32(edge, -200), float32(-float64(i)*math.Ln2))
	}
	gate = append(gate, -1e-45, -0x1p-126, -0x1p-24, -88, math.Nextafter32(-88, -100), -1e30, -math.MaxFloat32)
	for range gate {
		up = append(up, 1)
	}
	g, u := r.Tensor(1, len(gate), gate), r.Tensor(1, len(gate), up)
	r.Run(func(q kernels.Queue) { q.Gated(g, g, u, kernels.SiLU) })
	worst := 0.0
	for i, v := range r.Read(g) {
		x := float64(gate[i])
		want := x * math.Exp(x) / (1 + math.Exp(x))
		if v == 0 && x < -126.5*math.Ln2 {
			continue // e^x is taken as 0 there
		}
		off := math.Abs(float64(v) - want)
		require.LessOrEqual(t, off, math.Abs(want)*(0x1p-23+3*0x1p-24)+0x1p-149, "a gate of %v", gate[i])
		if want < -0x1p-100 {
			worst = max(worst, off/-want)
		}
	}
	t.Logf("largest relative error %.3g", worst)

	// No number, the largest ones and zeros.
	inf := float32(math.Inf(1))
	minus := float32(math.Copysign(0, -1))
	gate, up = []float32{inf, -inf, kerneltest.NaN, math.MaxFloat32, 200, 0, minus, 1e-40}, []float32{1, 1, 1, 1, 1, 1, 1, 1}
	want := []float32{inf, kerneltest.NaN, kerneltest.NaN, math.MaxFloat32, 200, 0, minus, 0.5e-40}
	g, u = r.Tensor(1, len(gate), gate), r.Tensor(1, len(gate), up)
	r.Run(func(q kernels.Queue) { q.Gated(g, g, u, kernels.SiLU) })
	kerneltest.SameBits(t, want, r.Read(g), "SwiGLU")
}

// The kernels' own sine and cosine, seen through RoPE of pairs (1, 0), which become
// just those: within 1e-7 at all positions up to 2^24, also where the angle is very
// near a multiple of π/2. In float64 the angle is exact.
func TestSineAndCosine(t *testing.T) {
	r := gpu.Rig(t)
	rng := kerneltest.NewRand(50)
	// Behind the small ones, multiples of π but for 3e-5 down to 1e-8 of a radian.
	positions := []int32{0, 1, 2, 3, 11, 22, 355, 344, 103993, 104348, 208341, 312689, 833719, 1146408, 4272943, 5419351, 1<<24 - 1, 1 << 24}
	for len(positions) < 64 {
		positions = append(positions, rng.Int32N(1<<24))
	}
	freq := []float32{1, 0.5, 0.25, 1.0 / 3, 1e-4, 1e-7, 1e-20, 1e-45, 0}
	for len(freq) < 500 {
		freq = append(freq, float32(math.Pow(1e5, -rng.Float64())))
	}
	for len(freq) < 1000 { // angles near a multiple of π/2
		p := float64(positions[18+rng.IntN(46)])
		freq = append(freq, float32(math.Round(p*rng.Float64())*math.Pi/2/p/2))
	}
	pairs := len(freq)
	turn := kerneltest.Rotation{N: len(positions), Heads: 1, Dim: 2 * pairs, Freq: freq, At: func(row int) int32 { return positions[row] }}
	for range len(positions) * pairs {
		turn.X = append(turn.X, 1, 0)
	}
	got, worst := turn.On(r, 0, turn.N), 0.0
	for row, position := range positions {
		for i, f := range freq {
			sin, cos := math.Sincos(float64(position) * float64(f))
			at := 2 * (row*pairs + i)
			off := max(math.Abs(cos-float64(got[at])), math.Abs(sin-float64(got[at+1])))
			require.LessOrEqual(t, off, 1e-7, "position %d, frequency %v: cosine %v, sine %v", position, f, got[at], got[at+1])
			worst = max(worst, off)
		}
	}
	t.Logf("largest error %.3g", worst)
}

// A turn that is none is NaN, and keeps to its pair.
func TestSineOfNoNumber(t *testing.T) {
	r := gpu.Rig(t)
	turn := kerneltest.Rotation{N: 2, Heads: 1, Dim: 8, Split: true, Freq: []float32{1, kerneltest.NaN, float32(math.Inf(1)), math.MaxFloat32},
		X: []float32{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}, At: func(row int) int32 { return int32(7 * row) }}
	got := turn.On(r, 0, 2)
	kerneltest.SameBits(t, []float32{1, kerneltest.NaN, kerneltest.NaN, 1, 0, kerneltest.NaN, kerneltest.NaN, 0}, got[:8], "position 0")
	require.InDelta(t, math.Cos(7), got[8], 1e-7)
	require.InDelta(t, math.Sin(7), got[12], 1e-7)
	kerneltest.SameBits(t, []float32{kerneltest.NaN, kerneltest.NaN, kerneltest.NaN, kerneltest.NaN, kerneltest.NaN, kerneltest.NaN}, []float32{got[9], got[10], got[11], got[13], got[14], got[15]}, "position 7")
}

// Numbers too small to be normal aren't taken for 0, zeros keep their sign, and what
// is too large becomes an infinity.
func TestNumbersAtTheLimits(t *testing.T) {
	r := gpu.Rig(t)
	inf, minus := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	tiny := math.Float32frombits(1)

	a := []float32{minus, minus, tiny, 1e-38, math.MaxFloat32, inf, inf, kerneltest.NaN}
	b := []float32{minus, 0, tiny, -0.9e-38, math.MaxFloat32, -inf, 1, 0}
	want := []float32{minus, 0, 2 * tiny, 1e-38, inf, kerneltest.NaN, inf, kerneltest.NaN}
	want[3] += b[3]
	dst, x := r.Tensor(1, len(a), a), r.Tensor(1, len(b), b)
	r.Run(func(q kernels.Queue) { q.Add(dst, x) })
	kerneltest.SameBits(t, want, r.Read(dst), "Add")

	// Of rows of zeros, of one with an infinity, with a NaN, whose squares are too small, too large.
	rows := []float32{0, minus, 1, inf, 1, kerneltest.NaN, 1e-30, -1e-30, 1e30, -1e30}
	f := float32(1 / math.Sqrt(1e-6))
	want = []float32{0, minus, 0, kerneltest.NaN, kerneltest.NaN, kerneltest.NaN, 1e-30 * f, -1e-30 * f, 0, minus}
	dst, x = r.Tensor(5, 2, nil), r.Tensor(5, 2, rows)
	gain := r.Vector([]float32{1, 1})
	r.Run(func(q kernels.Queue) { q.RMSNorm(dst, x, kernels.NormSpec{Gain: gain, Eps: 1e-6}) })
	got := r.Read(dst)
	require.InEpsilon(t, want[6], got[6], 1e-6)
	require.InEpsilon(t, want[7], got[7], 1e-6)
	want[6], want[7] = got[6], got[7]
	kerneltest.SameBits(t, want, got, "RMSNorm")

	// A product's denormal terms and sums; both kernels.
	w := r.Pack(kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 2, Cols: 3, Data: kerneltest.BytesOf([]float32{tiny, 0.5, 0, 1e-20, minus, 3})})
	for _, n := range []int{1, 9} {
		var all, each []float32
		for range n {
			all, each = append(all, 4, 3e-45, minus), append(each, 5*tiny, 4e-20)
		}
		x, dst = r.Tensor(n, 3, all), r.Tensor(n, 2, nil)
		r.Run(func(q kernels.Queue) { q.MatMul(x, []kernels.Product{{W: w, Dst: dst}}) })
		kerneltest.SameBits(t, each, r.Read(dst), "MatMul of %d rows", n)
	}
}

// Scores of -∞ weigh 0 on whichever page they are, and a row of nothing else is NaN.
func TestScoresOfMinusInfinity(t *testing.T) {
	r := gpu.Rig(t)
	for _, typ := range kerneltest.CacheTypes[:2] {
		// Page 8 is the same warp's as page 0; of 330 positions those of pages 0, 3 and 8 score -∞.
		d := kerneltest.NewDialogue(kerneltest.NewRand(60), typ, 1, 1, 8, 330)
		lost := func(p int) bool { return p/32 == 0 || p/32 == 3 || p/32 == 8 }
		for p := range 330 {
			for i := range 8 {
				d.Q[0][p*8+i], d.K[0][p*8+i] = -1e38, 0
				if lost(p) {
					d.K[0][p*8+i] = 6e4
				}
			}
		}
		out, _, _ := d.On(r, 110, kerneltest.NewRand(61))
		sums, n := make([]float64, 8), 0.0
		for p := range 330 {
			if !lost(p) {
				n++
			}
			for i := range 8 {
				if !lost(p) {
					sums[i] += float64(d.V[0][p*8+i])
				}
				got := out[0][p*8+i]
				require.Equal(t, n == 0, got != got, "%v: position %d", typ, p)
				if n > 0 {
					require.InDelta(t, sums[i]/n, got, 1e-3, "%v: position %d", typ, p) // F16 values
				}
			}
		}
	}
}
