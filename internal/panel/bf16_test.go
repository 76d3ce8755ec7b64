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

// randomBF16 returns any number, NaNs and infinities but seldom; often subnormal ones, and
// such as give subnormal products.
func randomBF16(rng *rand.Rand) uint16 {
	sign := uint16(rng.UintN(2) << 15)
	switch rng.UintN(12) {
	case 0:
		return sign | uint16(rng.UintN(128)) // subnormal, or 0
	case 1, 2:
		return sign | uint16(64+rng.IntN(3)-1)<<7 | uint16(rng.UintN(128)) // 2^-63: products near the smallest number
	case 3:
		return sign | uint16(1+rng.UintN(254))<<7 | uint16(rng.UintN(128))
	case 4:
		if rng.UintN(20) == 0 {
			return sign | 255<<7 | uint16(rng.UintN(2))
		}
	}
	return sign | uint16(120+rng.UintN(12))<<7 | uint16(rng.UintN(128))
}

// Numbers of all sizes: order, roundings, and what becomes of subnormal numbers are those
// of the definition.
func TestBF16IsThePortableTwinToTheBit(t *testing.T) {
	twin := kernelsOf(t, "portable")
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(41, 42))
		cols := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 255, 256, 257, 258, 259, 511, 513, 768}
		for range 40 {
			cols = append(cols, 1+rng.IntN(700))
		}
		for i, cols := range cols {
			n := 1 + i%17
			xStride, yStride := panel.BF16Stride(cols)+2*rng.IntN(3), panel.Lanes+rng.IntN(3)
			p, x := make([]byte, 2*panel.Lanes*cols), make([]uint16, (n-1)*xStride+cols)
			small := rng.UintN(3) == 0 // all products near the smallest number
			number := func() uint16 {
				v := randomBF16(rng)
				if small {
					v = v&0x807f | uint16(62+rng.UintN(4))<<7
				}
				return v
			}
			for i := range len(p) / 2 {
				le.PutUint16(p[2*i:], number())
			}
			for i := range x {
				x[i] = number()
			}
			got, want := outputs(n, yStride), outputs(n, yStride)
			k.BF16(p, cols, x, xStride, n, got, yStride)
			twin.BF16(p, cols, x, xStride, n, want, yStride)
			requireSame(t, want, got, "%d columns, %d rows", cols, n)
			requireGaps(t, got, yStride)
		}
	})
}

func TestBF16IsWithinItsBoundOfFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(43, 44))
		for range 10 {
			cols, n := 1+rng.IntN(2000), 1+rng.IntN(9)
			stride := panel.BF16Stride(cols)
			m := randomMatrix(rng, kernels.BF16, panel.Lanes, cols)
			p, _ := pack(m)
			w := make([]float32, panel.Lanes*cols)
			for l := range panel.Lanes {
				panel.Row(w[l*cols:][:cols], p, kernels.BF16, cols, l)
			}
			x, rounded, y := randomFloats(rng, n*cols), make([]uint16, n*stride), outputs(n, panel.Lanes)
			for r := range n {
				k.RoundBF16(rounded[r*stride:][:cols], x[r*cols:][:cols])
			}
			k.BF16(p, cols, rounded, stride, n, y, panel.Lanes)
			for r := range n {
				for l := range panel.Lanes {
					var exact, unrounded, size, bound float64
					for c := range cols {
						w, xc := float64(w[l*cols+c]), float64(x[r*cols+c])
						b := float64(math.Float32frombits(uint32(rounded[r*stride+c]) << 16))
						require.LessOrEqual(t, math.Abs(b-xc), math.Abs(xc)/256)
						exact += w * b
						unrounded += w * xc
						size += math.Abs(w * b)
						bound += math.Abs(w*xc) / 256
					}
					sums := (float64(cols)/4+16)*0x1p-23*size + float64(cols)*0x1p-125
					got := float64(y[r*panel.Lanes+l])
					require.LessOrEqual(t, math.Abs(got-exact), sums, "%d columns", cols)
					require.LessOrEqual(t, math.Abs(got-unrounded), sums+bound, "%d columns", cols)
				}
			}
		}
	})
}

func TestRoundBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(45, 46))
		x := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32,
			math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000), math.Float32frombits(0x3f808001),
			float32(math.NaN()), math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff), 0x1p-149, -0x1p-126}
		for range 1000 {
			x = append(x, math.Float32frombits(rng.Uint32()))
		}
		got := make([]uint16, len(x))
		k.RoundBF16(got, x)
		assert.Equal(t, []uint16{0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7f80, 0x3f80, 0x3f82, 0x3f81}, got[:10])
		for i, v := range x {
			r := math.Float32frombits(uint32(got[i]) << 16)
			if v != v {
				require.True(t, r != r, "%#x", math.Float32bits(v))
				continue
			}
			if math.Abs(float64(v)) > 0x1.fep127 {
				continue // infinite from the middle on
			}
			// No other number of 16 bits is closer.
			for _, other := range []uint16{got[i] + 1, got[i] - 1} {
				o := math.Float32frombits(uint32(other) << 16)
				require.False(t, math.Abs(float64(o)-float64(v)) < math.Abs(float64(r)-float64(v)), "%v became %v", v, r)
			}
		}
		for n := range 40 {
			short := make([]uint16, n+1)
			short[n] = 0xabcd
			k.RoundBF16(short[:n], x[:n])
			assert.Equal(t, got[:n], short[:n])
			assert.EqualValues(t, 0xabcd, short[n])
		}
	})
}

func TestBF16Mistakes(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		p, x, y := make([]byte, 1024), make([]uint16, 64), make([]float32, 32)
		k.BF16(nil, 32, nil, 0, 0, nil, 16)
		for name, f := range map[string]func(){
			"no columns":        func() { k.BF16(p, 0, x, 32, 1, y, 16) },
			"short panel":       func() { k.BF16(p[:1023:1023], 32, x, 32, 1, y, 16) },
			"short activations": func() { k.BF16(p, 32, x[:63:63], 32, 2, y, 16) },
			"short outputs":     func() { k.BF16(p, 32, x, 32, 2, y[:31:31], 16) },
			"negative stride":   func() { k.BF16(p, 32, x, -2, 2, y, 16) },
			"short dst":         func() { k.RoundBF16(x[:63:63], make([]float32, 64)) },
		} {
			assert.Panics(t, f, name)
		}
	})
}

func BenchmarkBF16(b *testing.B) {
	const size = 2048
	rng := rand.New(rand.NewPCG(47, 48))
	packed, stride := pack(randomMatrix(rng, kernels.BF16, size, size))
	k := kernelsOf(b, panel.Levels()[0])
	for _, n := range []int{1, 4, 8, 16, 64} {
		x, y := make([]uint16, n*size), make([]float32, n*size)
		k.RoundBF16(x, randomFloats(rng, n*size))
		b.Run("", func(b *testing.B) {
			for b.Loop() {
				for p := range size / panel.Lanes {
					k.BF16(packed[p*stride:][:stride], size, x, size, n, y[p*panel.Lanes:], size)
				}
			}
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(len(packed))/seconds/1e9, "GB/s")
			b.ReportMetric(float64(size*size*n)/seconds/1e9, "GMAC/s")
		})
	}
}
