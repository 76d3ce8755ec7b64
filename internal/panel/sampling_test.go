package panel_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
)

// The weights of every 61st float32 below 0, and of 0.
func TestWeightsAreWithinTheirBound(t *testing.T) {
	step := uint32(61)
	if testing.Short() {
		step = 6101
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		x, w := make([]float32, 992), make([]uint64, 992)
		for b := uint32(0); b < math.Float32bits(44); {
			for i := range x {
				x[i] = -math.Float32frombits(b)
				b += step
			}
			k.Weights(w, x, 0, 1)
			for i, v := range x {
				want := math.Exp2(float64(v)) * panel.WeightOne
				if err := math.Abs(float64(w[i]) - want); !(err <= 0x1p-22*want+0.5) {
					t.Fatalf("the weight of %v is %v, got %d", v, want, w[i])
				}
			}
		}
	})
}

func TestWeightsFarOut(t *testing.T) {
	const most = math.MaxFloat32
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for _, c := range []struct {
			x, largest, scale float32
			want              uint64
		}{
			{5, 5, 1, panel.WeightOne}, {4, 5, 1, panel.WeightOne / 2}, {5, 5, most, panel.WeightOne}, {-3, 5, 0, panel.WeightOne},
			{5 - 40, 5, 1, 1}, {5 - 42, 5, 1, 0}, {4, 5, most, 0}, {-most, most, 1, 0}, {-inf, 0, 1, 0}, {-inf, 0, 0, 0},
			{nan, 0, 1, 0}, {nan, 0, 0, 0}, {1e10 - 1024, 1e10, 1. / 1024, panel.WeightOne / 2}, {0, 1e-45, 1, panel.WeightOne},
		} {
			w := make([]uint64, 16)
			w[1] = 7
			k.Weights(w, []float32{c.x}, c.largest, c.scale)
			assert.EqualValues(t, c.want, w[0], "%+v", c)
			assert.Zero(t, w[1])
			sum, over := k.SplitWeights([]float32{c.x}, -inf, c.largest, c.largest, c.scale)
			assert.Equal(t, sum, k.SumWeights([]float32{c.x}, -inf, c.largest, c.scale))
			assert.EqualValues(t, c.want, sum, "%+v", c)
			if c.x != c.largest {
				c.want = 0
			}
			assert.EqualValues(t, c.want, over, "%+v", c)
		}
	})
}

func TestReductionsFarOut(t *testing.T) {
	zero, minus := float32(0), float32(math.Copysign(0, -1))
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for _, c := range []struct {
			x      []float32
			max    float32
			argmax int
		}{
			{nil, -inf, -1}, {[]float32{nan, nan}, -inf, -1}, {[]float32{nan, -inf, -inf}, -inf, 1}, {[]float32{nan, 2, 3, inf, inf}, inf, 3},
			{[]float32{minus, zero}, zero, 0}, {[]float32{minus, -1}, zero, 0}, {[]float32{nan, -4, nan, -3, -3}, -3, 3}, {[]float32{1e-45, 0}, 1e-45, 0},
		} {
			assert.Equal(t, math.Float32bits(c.max), math.Float32bits(k.Max(c.x)), "%v", c.x)
			assert.Equal(t, c.argmax, k.ArgMax(c.x), "%v", c.x)
		}
		assert.Equal(t, 2, k.Count([]float32{nan, -inf, -math.MaxFloat32, inf}, -inf))
		assert.Zero(t, k.Count([]float32{1, inf}, nan))
		x := make([]float32, 5000)
		x[4321], x[4777] = 1, 1
		assert.Equal(t, 4321, k.ArgMax(x))
		x[1024] = 2
		assert.Equal(t, 1024, k.ArgMax(x))
	})
}

func TestSumExpIsExact(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(51, 52))
		for n := 1; n < 300; n++ {
			x, top := randomFloats(rng, n), -inf
			for i := range x {
				x[i] *= float32(int(1) << rng.IntN(9))
				top = max(top, x[i])
			}
			want := 0.0
			for _, v := range x {
				want += math.Exp(float64(v) - float64(top))
			}
			require.InEpsilon(t, want, k.SumExp(x, top), 1e-12)
		}
		for x := float32(0); x > -690; x -= 0.37 {
			require.InEpsilon(t, math.Exp(float64(x)), k.SumExp([]float32{x}, 0), 1e-12)
		}
		require.Zero(t, k.SumExp([]float32{-inf, nan, -700, -math.MaxFloat32}, 0))
	})
}

// every calls each of sampling's kernels at one level, and returns all results.
func every(t testing.TB, k *panel.Kernels, x []float32, from, to, scale float32) []uint64 {
	const guard = 0xabcd
	n := len(x)
	top := k.Max(x)
	results := []uint64{uint64(math.Float32bits(top)), uint64(k.ArgMax(x)), uint64(k.Count(x, from))}
	values, ids := make([]float32, n+panel.FilterRoom+1), make([]int32, n+panel.FilterRoom+1)
	values[n+panel.FilterRoom], ids[n+panel.FilterRoom] = guard, guard
	found := k.Filter(values, ids, x, from, to)
	require.EqualValues(t, guard, values[n+panel.FilterRoom])
	require.EqualValues(t, guard, ids[n+panel.FilterRoom])
	for i, v := range values[:found] {
		results = append(results, uint64(math.Float32bits(v)), uint64(ids[i]))
	}
	place := append(make([]float32, 0, n+panel.FilterRoom), x...)
	require.Equal(t, found, k.Filter(place[:n+panel.FilterRoom], ids, place, from, to))
	for i, v := range values[:found] {
		require.Equal(t, math.Float32bits(v), math.Float32bits(place[i]), "in place")
	}
	if top-top != 0 { // infinite
		return results
	}
	w := make([]uint64, (n+15)/16*16+1)
	for i := range w {
		w[i] = guard
	}
	k.Weights(w, x, top, scale)
	require.EqualValues(t, guard, w[len(w)-1])
	sum, over := k.SplitWeights(x, from, to, top, scale)
	require.Equal(t, sum, k.SumWeights(x, from, top, scale))
	return append(append(results, w...), sum, over, math.Float64bits(k.SumExp(x, top)))
}

func TestSamplingKernelsAreTheSameAtEveryLevel(t *testing.T) {
	portable := kernelsOf(t, "portable")
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(53, 54))
		for n := range 200 {
			x, _ := fenced(t, randomFloats(rng, n))
			for i := range x {
				switch rng.IntN(20) {
				case 0:
					x[i] = []float32{nan, inf, -inf, 0, -math.MaxFloat32}[rng.IntN(5)]
				case 1:
					x[i] = float32(rng.IntN(3))
				}
			}
			from, scale := float32(rng.NormFloat64()), rng.Float32()*20
			to := from + rng.Float32()*2
			require.Equal(t, every(t, portable, x, from, to, scale), every(t, k, x, from, to, scale), "%d values", n)
		}
	})
}

// FuzzSampling compares the levels on rows of any bits.
func FuzzSampling(f *testing.F) {
	portable := kernelsOf(f, "portable")
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), uint32(0), uint32(0x7f800000), uint32(0x3f800000))
	f.Add([]byte("\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x80\xff\x00\x00\xc0\x7f"), uint32(0xff800000), uint32(0x3f800001), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, from, to, scale uint32) {
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		s := math.Float32frombits(scale &^ (1 << 31))
		if s-s != 0 {
			s = math.MaxFloat32
		}
		lo, hi := math.Float32frombits(from), math.Float32frombits(to)
		want := every(t, portable, x, lo, hi, s)
		for _, level := range panel.Levels() {
			require.Equal(t, want, every(t, kernelsOf(t, level), x, lo, hi, s), level)
		}
	})
}

// More than one call of a kernel takes.
func TestSumsOfLongRows(t *testing.T) {
	x := randomFloats(rand.New(rand.NewPCG(57, 58)), 3<<16+5)
	want, portable := 0.0, kernelsOf(t, "portable")
	var w, over uint64
	top := portable.Max(x)
	for from := 0; from < len(x); from += 1 << 16 {
		part := x[from:min(from+1<<16, len(x))]
		want += portable.SumExp(part, top)
		w += portable.SumWeights(part, -1, top, 2)
		over += portable.SumWeights(part, 1, top, 2)
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		assert.Equal(t, math.Float64bits(want), math.Float64bits(k.SumExp(x, top)))
		assert.Equal(t, w, k.SumWeights(x, -1, top, 2))
		sum, above := k.SplitWeights(x, -1, 1, top, 2)
		assert.Equal(t, w, sum)
		assert.Equal(t, over, above)
	})
}

func TestSamplingKernelsAllocateNothing(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		x, w := make([]float32, 50), make([]uint64, 64)
		values, ids := make([]float32, 66), make([]int32, 66)
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			k.Filter(values, ids, x, -1, 1)
			k.Weights(w, x, 0, 1)
			w[0], w[1] = k.SplitWeights(x, 0, 0, 0, 1)
			w[2] = k.SumWeights(x, 0, 0, 1) + uint64(k.SumExp(x, 0)) + uint64(k.Count(x, k.Max(x))+k.ArgMax(x))
		}))
	})
}

func BenchmarkSampling(b *testing.B) {
	const n = 128000
	x := randomFloats(rand.New(rand.NewPCG(55, 56)), n)
	values, ids, w := make([]float32, n+panel.FilterRoom), make([]int32, n+panel.FilterRoom), make([]uint64, n)
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"ArgMax", func() { k.ArgMax(x) }},
			{"Count", func() { k.Count(x, 1) }},
			{"Filter/few", func() { k.Filter(values, ids, x, 3, inf) }},
			{"Filter/some", func() { k.Filter(values, ids, x, 1.5, inf) }},
			{"Filter/half", func() { k.Filter(values, ids, x, 0, inf) }},
			{"Weights", func() { k.Weights(w, x, 5, 1) }},
			{"SumWeights", func() { k.SumWeights(x, -1, 5, 1) }},
			{"SplitWeights", func() { k.SplitWeights(x, -1, 1, 5, 1) }},
			{"SumExp", func() { k.SumExp(x, 5) }},
		} {
			b.Run(level+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
