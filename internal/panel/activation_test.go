package panel_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// Gates of every 61st float32 in the range where both parts of the quotient
// matter.
func TestSwiGLUIsWithinItsBound(t *testing.T) {
	step := uint32(61)
	if testing.Short() {
		step = 6101
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		gate, up, y := make([]float32, 64), make([]float32, 64), make([]float32, 64)
		for i := range up {
			up[i] = float32(i-32) / 8
		}
		for b := uint32(0); b < math.Float32bits(110); {
			for i := 0; i < len(gate); i += 2 {
				gate[i] = math.Float32frombits(b)
				gate[i+1] = -gate[i]
				b += step
			}
			k.Gated(kernels.SiLU, y, gate, up)
			for i, g := range gate {
				want := float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i])
				// What is too small for a weight is 0.
				if err := math.Abs(float64(y[i]) - want); !(err <= 0x1p-21*math.Abs(want)+0x1p-115) {
					t.Fatalf("gate %v, up %v: want %v, got %v", g, up[i], want, y[i])
				}
			}
		}
	})
}

func TestSwiGLUFarOut(t *testing.T) {
	const most = math.MaxFloat32
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for _, c := range []struct{ gate, up, want float32 }{
			{inf, 2, inf}, {inf, -2, -inf}, {inf, 0, nan}, {-inf, 2, nan}, {nan, 2, nan}, {-nan, 2, nan}, {1, nan, nan},
			{most, 1, most}, {most, 2, inf}, {-most, 2, 0}, {-most, inf, nan}, {200, 2, 400}, {-200, 2, 0}, {-88, 2, 0},
			{0, 5, 0}, {float32(math.Copysign(0, -1)), 5, 0}, {1e-40, 2, 1e-40}, {100, inf, inf}, {-1, inf, -inf}, {0, inf, nan},
		} {
			y := []float32{0}
			k.Gated(kernels.SiLU, y, []float32{c.gate}, []float32{c.up})
			assert.True(t, y[0] == c.want || y[0] != y[0] && c.want != c.want, "gate %v, up %v: want %v, got %v", c.gate, c.up, c.want, y[0])
		}
	})
}

// Arguments of every 1021st float32 up to 110, of both signs.
func TestActivationsAreWithinTheirBounds(t *testing.T) {
	step := uint32(1021)
	if testing.Short() {
		step = 60101
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for _, f := range kernels.Activations() {
			x, y, worst := make([]float32, 64), make([]float32, 64), 0.0
			for b := uint32(0); b < math.Float32bits(110); {
				for i := 0; i < len(x); i += 2 {
					x[i] = math.Float32frombits(b)
					x[i+1] = -x[i]
					b += step
				}
				k.Activate(f, y, x)
				for i, v := range x {
					w, bound := kerneltest.Activation(f, float64(v))
					// A power of e that is too small is 0.
					err := math.Abs(float64(y[i]) - w)
					if !(err <= bound*0x1p-24*math.Abs(w)+0x1p-118) {
						t.Fatalf("%v of %v: want %v, got %v, off by %.2f of its bound", f, v, w, y[i], err/(bound*0x1p-24*math.Abs(w)))
					}
					if math.Abs(w) > 0x1p-100 {
						worst = max(worst, err/(0x1p-24*math.Abs(w))/max(bound, 1))
					}
				}
			}
			t.Logf("%v: at most %.2f of the bound", f, worst)
		}
	})
}

func TestActivationsFarOut(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for f, want := range map[kernels.Activation][]float32{ // of inf, -inf, NaN, 1e30, -1e30, 0, -0, 1e-40
			kernels.SiLU:        {inf, nan, nan, 1e30, 0, 0, 0, 0.5e-40},
			kernels.GELU:        {inf, nan, nan, 1e30, 0, 0, 0, 0.5e-40},
			kernels.GELUErf:     {inf, nan, nan, 1e30, 0, 0, 0, 0.5e-40},
			kernels.ReLU:        {inf, 0, nan, 1e30, 0, 0, 0, 1e-40},
			kernels.ReLUSquared: {inf, 0, nan, inf, 0, 0, 0, 0},
			kernels.Tanh:        {1, -1, nan, 1, -1, 0, 0, 1e-40},
			kernels.Sigmoid:     {1, 0, nan, 1, 0, 0.5, 0.5, 0.5},
		} {
			x := []float32{inf, -inf, nan, 1e30, -1e30, 0, float32(math.Copysign(0, -1)), 1e-40}
			y := make([]float32, len(x))
			k.Activate(f, y, x)
			for i, w := range want {
				assert.True(t, y[i] == w || w != w && y[i] != y[i] || math.Abs(float64(y[i]-w)) < 1e-44, "%v of %v: want %v, got %v", f, x[i], w, y[i])
			}
		}
	})
}

// Alone, an element has the bits that it has among others, gated or not; and a gate is
// the function, times the other side.
func TestActivationsOfEveryLength(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for _, f := range kernels.Activations() {
			alone := func(x float32) float32 {
				y := []float32{x}
				k.Activate(f, y, y)
				return y[0]
			}
			requireEach(t, f.String(), 1, func(dst []float32, x [][]float32) { k.Activate(f, dst, x[0]) },
				func(x []float32) float32 { return alone(x[0]) })
			requireEach(t, "Gated "+f.String(), 2, func(dst []float32, x [][]float32) { k.Gated(f, dst, x[0], x[1]) },
				func(x []float32) float32 { return alone(x[0]) * x[1] })
		}
		requireEach(t, "SoftCap", 1, func(dst []float32, x [][]float32) { k.SoftCap(dst, x[0], 0.7) },
			func(x []float32) float32 {
				y := []float32{x[0] / 0.7}
				k.Activate(kernels.Tanh, y, y)
				return 0.7 * y[0]
			})
	})
}

func TestSoftCap(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		x := []float32{inf, -inf, nan, 1e30, -1e30, 1e-30, 0, 15, -60}
		y := make([]float32, len(x))
		k.SoftCap(y, x, 30)
		for i, v := range x {
			want := 30 * math.Tanh(float64(v)/30)
			if v != v {
				require.True(t, y[i] != y[i])
			} else {
				require.InDelta(t, want, y[i], math.Abs(want)*9*0x1p-24, "of %v", v)
			}
		}
	})
}
