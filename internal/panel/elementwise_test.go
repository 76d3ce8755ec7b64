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
		requireEach(t, "Multiply", 1, func(dst []float32, x [][]float32) { k.Multiply(dst, x[0], 0.7) },
			func(x []float32) float32 { return x[0] * 0.7 })
		requireEach(t, "Subtract", 1, func(dst []float32, x [][]float32) { k.Subtract(dst, x[0], 0.7) },
			func(x []float32) float32 { return x[0] - 0.7 })
		requireEach(t, "Standardize", 2, func(dst []float32, x [][]float32) { k.Standardize(dst, x[0], x[1], 0.3, 0.7) },
			func(x []float32) float32 { return float32(float32(x[0]-0.3)*0.7) * x[1] })
	})
}

func TestSumIsTheSameAtEveryLevel(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(37, 39))
		for n := range 100 {
			x := randomFloats(rng, n)
			var sum [16]float64
			for i := range x {
				x[i] *= float32(math.Exp2(float64(rng.IntN(200) - 100)))
				sum[i%16] += float64(x[i])
			}
			for half := 8; half > 0; half /= 2 {
				for i := range half {
					sum[i] += sum[half+i]
				}
			}
			in, _ := fenced(t, x)
			require.Equal(t, math.Float64bits(sum[0]), math.Float64bits(k.Sum(in)), "%d elements", n)
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
			"gate": func() { k.Gated(kernels.SiLU, long, short, long) }, "up": func() { k.Gated(kernels.SiLU, long, long, short) },
			"x of Scale": func() { k.Scale(long, short, long, 1) }, "gain": func() { k.Scale(long, long, short, 1) },
			"x of Activate": func() { k.Activate(kernels.Tanh, long, short) }, "x of SoftCap": func() { k.SoftCap(long, short, 1) },
			"x of Standardize": func() { k.Standardize(long, short, long, 0, 1) }, "gain of it": func() { k.Standardize(long, long, short, 0, 1) },
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
			k.Weigh(kernels.F16, v, 0, 20, f, f[:3], f, 32, nil)
			k.ExpandKeys(f, v[:1088])
			k.ExpandValues(f, v[:1088], 20)
			k.Gated(kernels.SiLU, f[:50], f[50:], f[100:])
			f[0] = float32(k.SumSquares(f[:50]))
			k.Activate(kernels.GELU, f[:50], f[50:])
			k.SoftCap(f[:50], f[50:], 2)
			f[0] = float32(k.Sum(f[:50])) + k.Max(f[:50]) + float32(k.Find(f[:50], 3))
			k.Scale(f[:50], f[50:], f[100:], 2)
			k.Standardize(f[:50], f[50:], f[100:], 2, 2)
			k.Multiply(f[:50], f[50:], 2)
			k.Divide(f[:50], f[50:], 2)
			k.Add(f[:50], f[50:])
			k.F16(h, f[:50])
			k.RotatePairs(f[:100], f[100:150], f[200:])
			k.RotateHalves(f[:100], f[100:150], f[200:])
			k.Score(kernels.F16, v, 32, f, 3, f[100:], 20, nil)
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
			{"SiLU", func() { k.Gated(kernels.SiLU, z, x, y) }},
			{"GELU", func() { k.Gated(kernels.GELU, z, x, y) }},
			{"GELUErf", func() { k.Gated(kernels.GELUErf, z, x, y) }},
			{"SoftCap", func() { k.SoftCap(z, x, 30) }},
			{"Max", func() { z[0] = k.Max(x) }},
			{"Find", func() { z[0] = float32(k.Find(x, 100)) }},
			{"SumSquares", func() { z[0] = float32(k.SumSquares(x)) }},
			{"Scale", func() { k.Scale(z, x, y, 2) }},
			{"Add", func() { k.Add(z, x) }},
			{"F16", func() { k.F16(h, x) }},
			{"RotatePairs", func() { k.RotatePairs(z, x[:n/2], y[:n/2]) }},
			{"RotateHalves", func() { k.RotateHalves(z, x[:n/2], y[:n/2]) }},
		} {
			b.Run(level+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
