package panel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// fenced returns a copy of x, with NaN before and behind it, and a check that
// those are as they were.
func fenced(t *testing.T, x []float32) (in []float32, intact func()) {
	const fence = 40
	all := make([]float32, len(x)+2*fence)
	for i := range all {
		all[i] = nan
	}
	copy(all[fence:], x)
	return all[fence:][:len(x):len(x)], func() {
		for i, v := range all {
			if i < fence || i >= fence+len(x) {
				require.True(t, v != v, "element %d of %d was written", i-fence, len(x))
			}
		}
	}
}

// requireEach checks an elementwise kernel at every length up to 70 against its
// definition, with dst apart and in the place of each argument.
func requireEach(t *testing.T, what string, args int, run func(dst []float32, x [][]float32), want func(x []float32) float32) {
	rng := rand.New(rand.NewPCG(35, 36))
	for n := range 70 {
		x, expected := make([][]float32, args), make([]float32, n)
		for i := range x {
			x[i] = randomFloats(rng, n)
		}
		for e := range expected {
			var at []float32
			for i := range x {
				at = append(at, x[i][e])
			}
			expected[e] = want(at)
		}
		for place := -1; place < args; place++ {
			dst, intact := fenced(t, make([]float32, n))
			in := make([][]float32, args)
			for i := range x {
				var whole func()
				in[i], whole = fenced(t, x[i])
				defer whole()
				if i == place {
					dst = in[i]
				}
			}
			run(dst, in)
			intact()
			requireSame(t, expected, dst, "%s of %d, dst in place of %d", what, n, place)
		}
	}
}

func TestElementwiseKernelsAreExact(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		requireEach(t, "Scale", 2, func(dst []float32, x [][]float32) { k.Scale(dst, x[0], x[1], 0.7) },
			func(x []float32) float32 { return float32(x[0]*0.7) * x[1] })
		requireEach(t, "Divide", 1, func(dst []float32, x [][]float32) { k.Divide(dst, x[0], 0.7) },
			func(x []float32) float32 { return x[0] / 0.7 })
		requireEach(t, "Add", 2, func(dst []float32, x [][]float32) {
			sum := append([]float32(nil), x[0]...)
			k.Add(sum, x[1])
			copy(dst, sum)
		}, func(x []float32) float32 { return x[0] + x[1] })
		// Alone, an element has the bits that it has among others.
		requireEach(t, "SwiGLU", 2, func(dst []float32, x [][]float32) { k.SwiGLU(dst, x[0], x[1]) },
			func(x []float32) float32 {
				y := []float32{0}
				k.SwiGLU(y, x[:1], x[1:])
				return y[0]
			})
	})
}

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
			k.SwiGLU(y, gate, up)
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
			k.SwiGLU(y, []float32{c.gate}, []float32{c.up})
			assert.True(t, y[0] == c.want || y[0] != y[0] && c.want != c.want, "gate %v, up %v: want %v, got %v", c.gate, c.up, c.want, y[0])
		}
	})
}

func TestSumSquaresIsTheSameAtEveryLevel(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(37, 38))
		for n := range 100 {
			x := randomFloats(rng, n)
			for i := range x {
				x[i] *= float32(math.Exp2(float64(rng.IntN(200) - 100)))
			}
			var sum [16]float64
			for i, v := range x {
				sum[i%16] += float64(v) * float64(v)
			}
			for half := 8; half > 0; half /= 2 {
				for i := range half {
					sum[i] += sum[half+i]
				}
			}
			in, _ := fenced(t, x)
			require.Equal(t, math.Float64bits(sum[0]), math.Float64bits(k.SumSquares(in)), "%d elements", n)
		}
		require.EqualValues(t, math.MaxFloat32*math.MaxFloat32, k.SumSquares([]float32{0, math.MaxFloat32}))
		require.True(t, math.IsInf(k.SumSquares([]float32{1, -inf}), 1))
		require.True(t, math.IsNaN(k.SumSquares([]float32{1, nan, inf})))
	})
}

func TestF16RoundsAsItsDefinition(t *testing.T) {
	step := uint32(241)
	if testing.Short() {
		step = 24001
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		x, got := make([]float32, 1000), make([]uint16, 1000)
		for b := uint32(0); b < math.MaxUint32-1000*step; {
			for i := range x {
				x[i] = math.Float32frombits(b)
				b += step
			}
			k.F16(got, x)
			for i, v := range x {
				want := kernels.Float16bits(v)
				if got[i] != want && (v == v || got[i]&0x7fff <= 0x7c00) {
					t.Fatalf("%v (%#x) is %#x in F16, got %#x", v, math.Float32bits(v), want, got[i])
				}
			}
		}
		for n := range 50 { // ties, at every length
			all := make([]uint16, n+2)
			for i := range all {
				all[i] = 0xabcd
			}
			x := make([]float32, n)
			for i := range x {
				x[i] = 1 + (float32(i)+0.5)/1024
			}
			k.F16(all[1:n+1], x)
			require.EqualValues(t, 0xabcd, all[0])
			require.EqualValues(t, 0xabcd, all[n+1])
			for i, h := range all[1 : n+1] {
				require.EqualValues(t, 0x3c00+(i+1)/2*2, h, "halfway from %d to the next", i)
			}
		}
	})
}

func TestShortSlicesPanic(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		long, short := make([]float32, 20), make([]float32, 19)
		for name, mistake := range map[string]func(){
			"gate": func() { k.SwiGLU(long, short, long) }, "up": func() { k.SwiGLU(long, long, short) },
			"x of Scale": func() { k.Scale(long, short, long, 1) }, "gain": func() { k.Scale(long, long, short, 1) },
			"x of Divide": func() { k.Divide(long, short, 1) }, "x of Add": func() { k.Add(long, short) },
			"halves": func() { k.F16(make([]uint16, 19), long) },
		} {
			assert.Panics(t, mistake, name)
		}
	})
}

func TestNoOtherKernelAllocates(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		f, v, h := make([]float32, 2048), make([]byte, 4096), make([]uint16, 50)
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			k.Soften(f, 20, 1, f[:3], f[3:6], f[6:9])
			k.Weigh(kernels.F16, v, 20, f, f[:3], f, 32)
			k.ExpandKeys(f, v[:1088])
			k.ExpandValues(f, v[:1088], 20)
			k.SwiGLU(f[:50], f[50:], f[100:])
			f[0] = float32(k.SumSquares(f[:50]))
			k.Scale(f[:50], f[50:], f[100:], 2)
			k.Divide(f[:50], f[50:], 2)
			k.Add(f[:50], f[50:])
			k.F16(h, f[:50])
		}))
	})
}

func BenchmarkElementwise(b *testing.B) {
	const n = 2048
	rng := rand.New(rand.NewPCG(39, 40))
	x, y, z, h := randomFloats(rng, n), randomFloats(rng, n), make([]float32, n), make([]uint16, n)
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"SwiGLU", func() { k.SwiGLU(z, x, y) }},
			{"SumSquares", func() { z[0] = float32(k.SumSquares(x)) }},
			{"Scale", func() { k.Scale(z, x, y, 2) }},
			{"Add", func() { k.Add(z, x) }},
			{"F16", func() { k.F16(h, x) }},
		} {
			b.Run(level+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
