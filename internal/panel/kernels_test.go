package panel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// eachLevel runs f for every level of this machine, the portable one included.
func eachLevel(t *testing.T, f func(t *testing.T, k *panel.Kernels)) {
	for _, level := range panel.Levels() {
		t.Run(level, func(t *testing.T) {
			f(t, kernelsOf(t, level))
		})
	}
}

func kernelsOf(t testing.TB, level string) *panel.Kernels {
	k, err := panel.For(level)
	require.NoError(t, err)
	require.Equal(t, level, k.Level)
	return k
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// sameBits says whether two results are the same, any NaN being like another.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func requireSame(t testing.TB, want, got []float32, what string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if !sameBits(want[i], got[i]) {
			require.Failf(t, "results differ", "at %d: want %v (%#x), got %v (%#x): "+what,
				append([]any{i, want[i], math.Float32bits(want[i]), got[i], math.Float32bits(got[i])}, args...)...)
		}
	}
}

// untouched fills the gaps between rows of outputs.
const untouched = -12345.5

func outputs(n, stride int) []float32 {
	y := make([]float32, (n-1)*stride+panel.Lanes)
	for i := range y {
		y[i] = untouched
	}
	return y
}

func TestLevels(t *testing.T) {
	levels := panel.Levels()
	assert.Equal(t, "portable", levels[len(levels)-1])
	_, err := panel.For("mmx")
	assert.ErrorContains(t, err, `SIMD level "mmx"`)
	assert.ErrorContains(t, err, "portable")
}

func TestFloatIsWithinItsBoundOfFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		cols := []int{1, 2, 3, 4, 5, 7, 8, 64, 128, 255, 256, 257, 259, 260, 511, 512, 513, 768, 2000}
		for range 20 {
			cols = append(cols, 1+rng.IntN(2000))
		}
		for _, typ := range floatTypes {
			for _, cols := range cols {
				n := 1 + rng.IntN(17)
				xStride, yStride := cols+rng.IntN(5), panel.Lanes+rng.IntN(5)
				m := randomMatrix(rng, typ, 1+rng.IntN(panel.Lanes), cols)
				p, _ := pack(m)
				x, y := randomFloats(rng, (n-1)*xStride+cols), outputs(n, yStride)
				k.Float(typ, p, cols, x, xStride, n, y, yStride)
				for r := range n {
					for l := range panel.Lanes {
						var want, size float64
						if l < m.Rows {
							for c, xc := range x[r*xStride:][:cols] {
								wx := value(m, l, c) * float64(xc)
								want += wx
								size += math.Abs(wx)
							}
						}
						bound := float64(cols+8) * 0x1p-24 * size
						require.LessOrEqual(t, math.Abs(want-float64(y[r*yStride+l])), bound,
							"%v, %d columns, row %d of %d, lane %d: want %v, got %v", typ, cols, r, n, l, want, y[r*yStride+l])
					}
				}
				requireGaps(t, y, yStride)
			}
		}
	})
}

func requireGaps(t testing.TB, y []float32, stride int) {
	t.Helper()
	for i, v := range y {
		if i%stride >= panel.Lanes {
			require.EqualValues(t, untouched, v, "the gap at %d was written", i)
		}
	}
}

func TestFloatTakesSegmentsInOrder(t *testing.T) {
	// 2^24 + 1 is 2^24 in float32, but a segment of ones sums to 255 before it
	// is added.
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		cols := 3 * panel.Segment
		m := kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: cols, Data: make([]byte, 4*cols)}
		x := make([]float32, cols)
		for c := range cols {
			le.PutUint32(m.Data[4*c:], math.Float32bits(1))
			x[c] = 1
		}
		x[0] = 1 << 24
		p, _ := pack(m)
		y := make([]float32, panel.Lanes)
		k.Float(kernels.F32, p, cols, x, cols, 1, y, panel.Lanes)
		assert.EqualValues(t, 1<<24+2*panel.Segment, y[0])
	})
}

func TestFloatKeepsTheSignOfASumThatUnderflows(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		m := kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: 1, Data: make([]byte, 4)}
		le.PutUint32(m.Data, math.Float32bits(-0x1p-149))
		p, _ := pack(m)
		y := make([]float32, panel.Lanes)
		k.Float(kernels.F32, p, 1, []float32{0x1p-149}, 1, 1, y, panel.Lanes)
		assert.Zero(t, y[0])
		fused := k.Level != "portable"
		assert.Equal(t, fused, math.Signbit(float64(y[0])), "a fused sum rounds once, to -0")
	})
}

func TestFloatConvertsEveryHalfExactly(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		p, y := make([]byte, 2*panel.Lanes), make([]float32, panel.Lanes)
		for from := 0; from < 1<<16; from += panel.Lanes {
			for l := range panel.Lanes {
				le.PutUint16(p[2*l:], uint16(from+l))
			}
			k.Float(kernels.F16, p, 1, []float32{1}, 1, 1, y, panel.Lanes)
			for l := range panel.Lanes {
				want := float32(halfValue(uint16(from+l))) + 0 // -0 + 0 is +0
				require.True(t, sameBits(want, y[l]), "%#04x: want %v, got %v", from+l, want, y[l])
			}
		}
	})
}

func TestIntIsThePortableTwinToTheBit(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, typ := range intTypes {
			for n := 1; n <= 17; n++ {
				cols := randomColumns(rng, typ)
				yStride := panel.Lanes + rng.IntN(5)
				m := randomMatrix(rng, typ, 1+rng.IntN(panel.Lanes), cols)
				spread(m, rng)
				p, _ := pack(m)
				a := activations(t, n+2, cols)
				x := randomFloats(rng, (n+2)*cols)
				quantizeAll(k, a, x)
				y := outputs(n, yStride)
				k.Int(typ, p, cols, a, 1, n, y, yStride)
				for r := range n {
					want := intReference(m, x[(r+1)*cols:][:cols])
					requireSame(t, want, y[r*yStride:][:m.Rows], "%v, %d columns, row %d of %d", typ, cols, r, n)
				}
				requireGaps(t, y, yStride)
			}
		}
	})
}

// randomColumns returns up to 2048 columns, mostly not as many as a segment's.
func randomColumns(rng *rand.Rand, t kernels.Type) int {
	elems, _ := t.Block()
	return elems * (1 + rng.IntN(2048/elems))
}

// spread puts extreme weights and scales among random ones.
func spread(m kernels.Matrix, rng *rand.Rand) {
	_, size := m.Type.Block()
	for at := 0; at < len(m.Data); at += size {
		e := m.Data[at:][:size]
		if rng.IntN(4) == 0 {
			extreme := []byte{0x80, 0x7f, 0x00, 0xff, 0xf0, 0x0f}[rng.IntN(6)]
			for i := range e {
				e[i] = extreme
			}
			putHalves(m.Type, e, []uint16{randomHalf(rng), randomHalf(rng)})
		}
		if rng.IntN(100) == 0 {
			odd := []uint16{0x0000, 0x8000, 0x7bff, 0x0001, 0x7c00, 0xfc00, 0x7e00, 0x7c01}
			putHalves(m.Type, e, []uint16{odd[rng.IntN(8)], odd[rng.IntN(8)]})
		}
	}
}

// intReference computes the product of every row of m with one row of
// activations from the definition, one output at a time.
func intReference(m kernels.Matrix, x []float32) []float32 {
	elems, size := m.Type.Block()
	y := make([]float32, m.Rows)
	for r := range y {
		for b := 0; b < m.Cols; b += panel.Block {
			e := m.Data[(r*m.Cols+b)/elems*size:][:size]
			dx, q := quantizeReference(x[b:][:panel.Block])
			var s, sums [2]int // of the halves
			var w [2]integer
			for i := range q {
				h := i / (panel.Block / 2)
				w[h] = integerOf(m.Type, e, b%elems+i)
				s[h] += w[h].q * q[i]
				sums[h] += q[i]
			}
			d, dmin := float32(w[0].d), float32(w[0].dmin)
			f := blocks.For(m.Type)
			switch {
			case m.Type == kernels.NVFP4:
				y[r] += float32((float32(d*float32(s[0])) + float32(float32(w[1].d)*float32(s[1]))) * dx)
			case f.Scales.Halves():
				t := w[0].scale*s[0] + w[1].scale*s[1]
				u := w[0].minimum*-8*sums[0] + w[1].minimum*-8*sums[1]
				product := float32(d * float32(t))
				if f.HasMinimum() {
					product += float32(float32(dmin/8) * float32(u))
				}
				y[r] += float32(product * dx)
			case f.HasMinimum():
				product := float32(float32(d*float32(w[0].scale)) * float32(s[0]+s[1]))
				least := float32(float32(dmin/8*float32(w[0].minimum)) * float32(-8*(sums[0]+sums[1])))
				y[r] += float32((product + least) * dx)
			default:
				y[r] += float32(float32(s[0]+s[1]) * float32(float32(d*float32(w[0].scale))*dx))
			}
		}
	}
	return y
}

// A product differs from that of the values by what the activations were rounded
// by, half a step each, and by the roundings of the sum.
func TestIntIsWithinItsBoundOfFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(23, 24))
		for _, typ := range intTypes {
			for range 6 {
				cols := randomColumns(rng, typ)
				m := randomMatrix(rng, typ, panel.Lanes, cols)
				elems, size := typ.Block()
				p, _ := pack(m)
				x, y := randomFloats(rng, cols), make([]float32, panel.Lanes)
				a := activations(t, 1, cols)
				quantizeAll(k, a, x)
				k.Int(typ, p, cols, a, 0, 1, y, panel.Lanes)
				for l := range panel.Lanes {
					var want, rounded, whole float64
					for c, xc := range x {
						dx, _ := quantizeReference(x[c/panel.Block*panel.Block:][:panel.Block])
						w := value(m, l, c)
						want += w * float64(xc)
						rounded += math.Abs(w) * float64(dx) / 2
						i := integerOf(typ, m.Data[(l*cols+c)/elems*size:][:size], c%elems)
						whole += (math.Abs(i.d*float64(i.scale*i.q)) + math.Abs(i.dmin*float64(i.minimum))) * (math.Abs(float64(xc)) + float64(dx))
					}
					bound := 1.001*rounded + float64(cols/panel.Block+8)*0x1p-24*whole
					require.LessOrEqual(t, math.Abs(want-float64(y[l])), bound, "%v, %d columns, lane %d: want %v, got %v", typ, cols, l, want, y[l])
				}
			}
		}
	})
}

func TestAResultDoesNotDependOnTheOtherRows(t *testing.T) {
	const rows = 17
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, typ := range append(floatTypes, intTypes...) {
			cols := 700
			if typ.Quantized() {
				cols = 768
			}
			p, _ := pack(randomMatrix(rng, typ, panel.Lanes, cols))
			x := randomFloats(rng, rows*cols)
			product := func(from, n int) []float32 {
				y := outputs(n, panel.Lanes)
				k.Float(typ, p, cols, x[from*cols:], cols, n, y, panel.Lanes)
				return y
			}
			if typ.Quantized() {
				a := activations(t, rows, cols)
				quantizeAll(k, a, x)
				product = func(from, n int) []float32 {
					y := outputs(n, panel.Lanes)
					k.Int(typ, p, cols, a, from, n, y, panel.Lanes)
					return y
				}
			}
			var alone []float32
			for r := range rows {
				alone = append(alone, product(r, 1)...)
			}
			for n := 1; n <= rows; n++ {
				from := rng.IntN(rows - n + 1)
				requireSame(t, alone[from*panel.Lanes:(from+n)*panel.Lanes], product(from, n), "%v, %d rows", typ, n)
			}
		}
	})
}

func TestNoRows(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		a := activations(t, 0, 32)
		k.Float(kernels.F32, nil, 8, nil, 8, 0, nil, 16)
		k.Int(kernels.Q8_0, nil, 32, a, 0, 0, nil, 16)
	})
}

func TestMistakesPanicBeforeTheyTouchMemory(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		p, x, y := make([]byte, 4096), make([]float32, 64), make([]float32, 32)
		a := activations(t, 2, 64)
		for name, f := range map[string]func(){
			"integer type":      func() { k.Float(kernels.Q8_0, p, 32, x, 32, 1, y, 16) },
			"float type":        func() { k.Int(kernels.BF16, p, 64, a, 0, 1, y, 16) },
			"no type":           func() { k.Float(0, p, 32, x, 32, 1, y, 16) },
			"no columns":        func() { k.Float(kernels.F32, p, 0, x, 32, 1, y, 16) },
			"short panel":       func() { k.Float(kernels.F32, p[:2047:2047], 32, x, 32, 1, y, 16) },
			"short activations": func() { k.Float(kernels.F32, p, 32, x[:63:63], 32, 2, y, 16) },
			"short outputs":     func() { k.Float(kernels.F32, p, 32, x, 32, 2, y[:31:31], 16) },
			"negative stride":   func() { k.Float(kernels.F32, p, 32, x, -1, 2, y, 16) },
			"half a superblock": func() { k.Int(kernels.Q4_K, p, 64, a, 0, 1, y, 16) },
			"other columns":     func() { k.Int(kernels.Q8_0, p, 32, a, 0, 1, y, 16) },
			"missing row":       func() { k.Int(kernels.Q8_0, p, 64, a, 1, 2, y, 16) },
			"short row":         func() { k.Quantize(a, 0, x[:63:63]) },
		} {
			assert.Panics(t, f, name)
		}
	})
}

func TestNothingIsAllocated(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		const n, cols = 15, 512
		rng := rand.New(rand.NewPCG(9, 10))
		x, y := randomFloats(rng, n*cols), outputs(n, panel.Lanes)
		a := activations(t, n, cols)
		for _, typ := range append(floatTypes, intTypes...) {
			p, _ := pack(randomMatrix(rng, typ, panel.Lanes, cols))
			assert.Zero(t, testing.AllocsPerRun(10, func() {
				if typ.Quantized() {
					k.Quantize(a, 0, x[:cols])
					k.Int(typ, p, cols, a, 0, n, y, panel.Lanes)
				} else {
					k.Float(typ, p, cols, x, cols, n, y, panel.Lanes)
				}
			}), typ)
		}
	})
}
