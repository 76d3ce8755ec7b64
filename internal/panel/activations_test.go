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

// activations returns room for some rows, with the memory dirty.
func activations(t testing.TB, rows, cols int) *panel.Activations {
	a, _ := activationsOver(t, rows, cols)
	return a
}

func activationsOver(t testing.TB, rows, cols int) (*panel.Activations, []byte) {
	bytes, err := panel.ActivationBytes(rows, cols)
	require.NoError(t, err)
	mem := make([]byte, bytes)
	for i := range mem {
		mem[i] = 0xa5
	}
	a, err := panel.NewActivations(mem, rows, cols)
	require.NoError(t, err)
	require.Equal(t, cols, a.Cols())
	return &a, mem
}

func quantizeAll(k *panel.Kernels, a *panel.Activations, x []float32) {
	for r := range len(x) / a.Cols() {
		k.Quantize(a, r, x[r*a.Cols():][:a.Cols()])
	}
}

// quantizeReference is the definition, for one block.
func quantizeReference(x []float32) (d float32, q [panel.Block]int) {
	var m float32
	for _, v := range x {
		if v-v != 0 {
			return float32(math.NaN()), q
		}
		m = max(m, v, -v)
	}
	d = m / 127
	inverse := 1 / d
	if math.IsInf(float64(inverse), 0) {
		return 0, q
	}
	for i, v := range x {
		q[i] = int(math.RoundToEven(float64(v * inverse)))
	}
	return d, q
}

func requireQuantized(t testing.TB, x []float32, mem []byte) {
	t.Helper()
	for b := 0; b < len(x); b += panel.Block {
		block := mem[b/panel.Block*48:][:48]
		d, q := quantizeReference(x[b:][:panel.Block])
		got := math.Float32frombits(le.Uint32(block[32:]))
		require.True(t, sameBits(d, got), "block %d: want scale %v, got %v", b/panel.Block, d, got)
		var sums [2]int
		for i, want := range q {
			require.LessOrEqual(t, max(want, -want), 127)
			require.EqualValues(t, want, int8(block[i]), "block %d, element %d: %v by %v", b/panel.Block, i, x[b+i], d)
			sums[i/(panel.Block/2)] += want
		}
		for i, want := range []int{sums[0] + sums[1], sums[0], sums[1]} {
			require.EqualValues(t, -8*want, int32(le.Uint32(block[36+4*i:])), "block %d: sum %d", b/panel.Block, i)
		}
	}
}

func TestQuantize(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(11, 12))
		for range 200 {
			cols := panel.Block * (1 + rng.IntN(20))
			a, mem := activationsOver(t, 3, cols)
			x := randomFloats(rng, cols)
			for b := 0; b < cols; b += panel.Block {
				// From numbers too small to have a scale to ones near the end.
				scale := float32(math.Ldexp(1, rng.IntN(272)-149))
				for i := range x[b:][:panel.Block] {
					x[b+i] *= scale
				}
			}
			k.Quantize(a, 1, x)
			third := len(mem) / 3
			requireQuantized(t, x, mem[third:2*third])
			for i := range third {
				require.EqualValues(t, 0xa5, mem[i], "the row before was written")
				require.EqualValues(t, 0xa5, mem[2*third+i], "the row after was written")
			}
		}
	})
}

func TestQuantizeEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		x []float32
		d float32
		q []int
	}{
		"zeros":                        {[]float32{0, float32(math.Copysign(0, -1))}, 0, []int{0, 0}},
		"halves go to even":            {[]float32{127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127}, 1, []int{127, 0, 2, 2, 0, -2, -2, -127}},
		"the largest numbers":          {[]float32{math.MaxFloat32, -math.MaxFloat32}, math.MaxFloat32 / 127, []int{127, -127}},
		"the least scale with inverse": {[]float32{127 * 0x1.00001p-128}, 0x1.00001p-128, []int{127}},
		"no inverse":                   {[]float32{127 * 0x1p-128, -127 * 0x1p-129}, 0, []int{0, 0}},
		"the least number":             {[]float32{0x1p-149}, 0, []int{0}},
		"infinity":                     {[]float32{1, inf}, nan, []int{0, 0}},
		"minus infinity":               {[]float32{-inf, 1}, nan, []int{0, 0}},
		"NaN":                          {[]float32{1, 2, nan}, nan, []int{0, 0, 0}},
		"a signalling NaN":             {[]float32{math.Float32frombits(0xff800001)}, nan, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			eachLevel(t, func(t *testing.T, k *panel.Kernels) {
				x := make([]float32, 3*panel.Block)
				x[0], x[2*panel.Block] = 1, 1
				for shift := range panel.Block - len(c.x) {
					clear(x[panel.Block:][:panel.Block])
					copy(x[panel.Block+shift:], c.x)
					a, mem := activationsOver(t, 1, len(x))
					k.Quantize(a, 0, x)
					block := mem[48:96]
					want := math.Float32bits(c.d)
					if c.d != c.d {
						want = 0x7fc00000
					}
					require.Equal(t, want, le.Uint32(block[32:]), "scale")
					for i, q := range c.q {
						require.EqualValues(t, q, int8(block[shift+i]), "element %d", i)
					}
					requireQuantized(t, x, mem)
				}
			})
		})
	}
}

func TestANaNReachesItsOwnRowOnly(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		const n, cols = 9, 256
		rng := rand.New(rand.NewPCG(13, 14))
		for _, typ := range intTypes {
			p, _ := pack(randomMatrix(rng, typ, panel.Lanes, cols))
			x := randomFloats(rng, n*cols)
			x[4*cols+40] = float32(math.Inf(-1))
			a := activations(t, n, cols)
			quantizeAll(k, a, x)
			y := outputs(n, panel.Lanes)
			k.Int(typ, p, cols, a, 0, n, y, panel.Lanes)
			for i, v := range y {
				assert.Equal(t, i/panel.Lanes == 4, v != v, "%v, row %d", typ, i/panel.Lanes)
			}
		}
	})
}

func TestActivationsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		want       string
	}{
		{1, 0, "multiple of 32"},
		{1, 31, "multiple of 32"},
		{-1, 32, "-1 rows"},
		{1, math.MaxInt &^ 31, "more than memory can hold"},
		{math.MaxInt, 1024, "more than memory can hold"},
	} {
		_, err := panel.ActivationBytes(c.rows, c.cols)
		assert.ErrorContains(t, err, c.want)
		_, err = panel.NewActivations(nil, c.rows, c.cols)
		assert.ErrorContains(t, err, c.want)
	}
	_, err := panel.NewActivations(make([]byte, 95), 2, 32)
	assert.ErrorContains(t, err, "take 96 bytes, but only 95 are given")
}

// FuzzInt feeds any bits, as weights and as activations, to every level.
func FuzzInt(f *testing.F) {
	for i := range intTypes {
		_, size := intTypes[i].Block()
		seed := make([]byte, elemsOf(intTypes[i])*4+size)
		for i := range seed {
			seed[i] = byte(i * 37)
		}
		f.Add(seed, uint8(3), uint8(i))
		f.Add(seed, uint8(9), uint8(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, rows, typ uint8) {
		requireTwins(t, intTypes[int(typ)%len(intTypes)], data, 1+int(rows%17))
	})
}

// requireTwins multiplies one row of weights by n of activations, all made of
// data, at every level and by the definition.
func requireTwins(t *testing.T, typ kernels.Type, data []byte, n int) {
	elems, size := typ.Block()
	blocks := len(data) / (4*elems + size)
	if blocks == 0 {
		return
	}
	cols := blocks * elems
	x := make([]float32, n*cols)
	for i := range x {
		// Rows after the first start elsewhere in the data.
		x[i] = math.Float32frombits(le.Uint32(data[(i+i/cols)%cols*4:]))
	}
	m := kernels.Matrix{Type: typ, Rows: 1, Cols: cols, Data: data[4*cols:][:blocks*size]}
	p, _ := pack(m)
	var want []float32
	for r := range n {
		want = append(want, intReference(m, x[r*cols:][:cols])...)
	}
	for _, level := range panel.Levels() {
		k := kernelsOf(t, level)
		a, mem := activationsOver(t, n, cols)
		quantizeAll(k, a, x)
		requireQuantized(t, x, mem)
		y := outputs(n, panel.Lanes)
		k.Int(typ, p, cols, a, 0, n, y, panel.Lanes)
		for r := range n {
			requireSame(t, want[r:r+1], y[r*panel.Lanes:][:1], "%s, %v, row %d", level, typ, r)
		}
	}
}
