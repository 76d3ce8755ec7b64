package panel_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

var (
	floatTypes = []kernels.Type{kernels.F32, kernels.F16, kernels.BF16}
	intTypes   = kernels.WeightTypes()[3:]
	le         = binary.LittleEndian
)

// randomMatrix returns a matrix as a file stores it, and its values.
func randomMatrix(rng *rand.Rand, t kernels.Type, rows, cols int) kernels.Matrix {
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		panic(err)
	}
	m := kernels.Matrix{Type: t, Rows: rows, Cols: cols, Data: make([]byte, int64(rows)*rowBytes)}
	_, size := t.Block()
	for at := 0; at < len(m.Data); at += size {
		e := m.Data[at:][:size]
		switch t {
		case kernels.F32:
			le.PutUint32(e, math.Float32bits(float32(rng.NormFloat64())))
		case kernels.F16:
			le.PutUint16(e, randomHalf(rng))
		case kernels.BF16:
			le.PutUint16(e, uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
		default:
			for i := range e {
				e[i] = byte(rng.Uint32())
			}
			putHalves(t, e, []uint16{randomHalf(rng), randomHalf(rng)})
			if t == kernels.MXFP4 {
				e[0] = byte(120 + rng.UintN(12))
			}
		}
	}
	return m
}

// halves returns where a block of a file has its F16, as whole numbers.
func halves(t kernels.Type) []int {
	switch t {
	case kernels.Q4_1, kernels.Q5_1, kernels.Q4_K, kernels.Q5_K:
		return []int{0, 2}
	case kernels.Q2_K:
		return []int{80, 82}
	case kernels.Q3_K:
		return []int{108}
	case kernels.Q6_K:
		return []int{208}
	case kernels.TQ1_0:
		return []int{52}
	case kernels.TQ2_0:
		return []int{64}
	case kernels.IQ1_M, kernels.MXFP4, kernels.NVFP4:
		return nil
	}
	return []int{0}
}

// putHalves writes the F16 of a file's block.
func putHalves(t kernels.Type, e []byte, h []uint16) {
	for i, at := range halves(t) {
		le.PutUint16(e[at:], h[i])
	}
	if t == kernels.IQ1_M { // four bits in each of four words
		for i := range 4 {
			e[49+2*i] = e[49+2*i]&15 | byte(h[0]>>(4*i)&15)<<4
		}
	}
}

// randomHalf returns a binary16 number up to 2, often subnormal.
func randomHalf(rng *rand.Rand) uint16 {
	return uint16(rng.UintN(2)<<15 | rng.UintN(16)<<10 | rng.UintN(1<<10))
}

// value is the element of a matrix, computed from the file's format.
func value(m kernels.Matrix, row, col int) float64 {
	elems, size := m.Type.Block()
	e := m.Data[(row*m.Cols+col)/elems*size:][:size]
	i := col % elems
	switch m.Type {
	case kernels.F32:
		return float64(math.Float32frombits(le.Uint32(e)))
	case kernels.F16:
		return halfValue(le.Uint16(e))
	case kernels.BF16:
		return float64(math.Float32frombits(uint32(le.Uint16(e)) << 16))
	}
	w := integerOf(m.Type, e, i)
	return w.d*float64(w.scale*w.q) - w.dmin*float64(w.minimum)
}

// integer is an element of a quantized type: d·scale·q - dmin·minimum.
type integer struct {
	q, scale, minimum int
	d, dmin           float64
}

// integerOf reads element i of a file's block, with what package blocks says of it.
func integerOf(t kernels.Type, e []byte, i int) integer {
	f := blocks.For(t)
	u := unitOf(f, e, i/f.Cols)
	i %= f.Cols
	d, dmin := f.HeaderScale(u.D, u.M)
	w := integer{q: f.Value(u.Codes[i]), scale: 1, d: float64(d), dmin: float64(dmin)}
	n, half := f.Scales.Bytes(), i%blocks.Block/blocks.Group
	b := u.Scales[i/blocks.Block*n:][:n]
	switch f.Scales {
	case blocks.NoScales:
		w.minimum = -1
	case blocks.TwoFloats:
		w.d = float64(blocks.SmallFloat(b[half]))
	default:
		s, m := f.Scales.Integers(b)
		w.scale, w.minimum = int(s[half]), int(m[half])
	}
	return w
}

// last is the unit that was read last: tests read element after element.
var last struct {
	block []byte // its bytes then: the fuzzer writes others to the same address
	index int
	form  *blocks.Form
	unit  blocks.Unit
}

func unitOf(f *blocks.Form, e []byte, i int) *blocks.Unit {
	if last.form != f || last.index != i || !bytes.Equal(last.block, e) {
		last.block, last.index, last.form = append(last.block[:0], e...), i, f
		f.Unpack(&last.unit, e, i)
	}
	return &last.unit
}

func halfValue(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exponent, fraction := int(h>>10&31), float64(h&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// pack returns all panels of m.
func pack(m kernels.Matrix) (packed []byte, stride int) {
	total, err := panel.Bytes(m.Type, m.Rows, m.Cols)
	if err != nil {
		panic(err)
	}
	s, _ := panel.Stride(m.Type, m.Cols)
	packed = make([]byte, total)
	for i := range packed {
		packed[i] = 0xa5 // Pack must not count on zeros.
	}
	for p := range panel.Count(m.Rows) {
		panel.Pack(packed[int64(p)*s:][:s], m, p)
	}
	return packed, int(s)
}

func TestStride(t *testing.T) {
	for _, c := range []struct {
		t      kernels.Type
		cols   int
		stride int64
	}{
		{kernels.F32, 1, 64}, {kernels.F32, 100, 6400},
		{kernels.F16, 1, 64}, {kernels.F16, 2, 64}, {kernels.BF16, 3, 128},
		{kernels.Q8_0, 32, 576}, {kernels.Q8_0, 64, 1088},
		{kernels.Q4_0, 32, 320}, {kernels.Q4_0, 64, 576},
		{kernels.Q4_K, 256, 2368}, {kernels.Q4_K, 512, 4736},
		{kernels.Q6_K, 256, 3392}, {kernels.Q6_K, 512, 6720},
		{kernels.Q4_1, 64, 640}, {kernels.Q5_0, 64, 704}, {kernels.Q5_1, 32, 384},
		{kernels.Q2_K, 256, 1344}, {kernels.Q3_K, 512, 3648}, {kernels.Q5_K, 256, 2880},
		{kernels.IQ1_S, 256, 1344}, {kernels.IQ1_M, 512, 3392}, {kernels.IQ2_XXS, 512, 3392},
		{kernels.IQ2_S, 512, 3648}, {kernels.IQ3_S, 512, 4416}, {kernels.IQ4_XS, 512, 4416},
		{kernels.TQ1_0, 512, 2112}, {kernels.MXFP4, 64, 576}, {kernels.NVFP4, 64, 576},
		{kernels.Q1_0, 256, 576}, {kernels.Q2_0, 128, 576},
	} {
		got, err := panel.Stride(c.t, c.cols)
		require.NoError(t, err)
		assert.Equal(t, c.stride, got, "%v, %d columns", c.t, c.cols)

		for rows, panels := range map[int]int64{0: 0, 1: 1, 16: 1, 17: 2, 160: 10} {
			got, err := panel.Bytes(c.t, rows, c.cols)
			require.NoError(t, err)
			assert.Equal(t, panels*c.stride, got, "%v, %d rows", c.t, rows)
		}
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		t          kernels.Type
		rows, cols int
		want       string
	}{
		{kernels.I32, 1, 32, "weights of I32 have no panels; these have: F32, F16, BF16, Q8_0, Q4_0, Q4_1"},
		{0, 1, 32, "weights of type 0 have no panels"},
		{99, 1, 32, "weights of type 99 have no panels"},
		{kernels.F32, 1, 0, "0 columns of F32"},
		{kernels.F16, 1, -8, "-8 columns of F16"},
		{kernels.Q8_0, 1, 33, "multiple of 32"},
		{kernels.Q4_K, 1, 96, "96 columns of Q4_K weights: a positive multiple of 256"},
		{kernels.Q6_K, 1, 288, "288 columns of Q6_K weights: a positive multiple of 256"},
		{kernels.Q6_K, 1, math.MaxInt &^ 255, "more than memory can hold"},
		{kernels.F32, -1, 32, "a matrix of -1 rows"},
		{kernels.F32, 1, math.MaxInt, "more than memory can hold"},
		{kernels.Q4_0, 1, math.MaxInt &^ 31, "more than memory can hold"},
		{kernels.F32, math.MaxInt, 1 << 16, "more than memory can hold"},
	} {
		_, err := panel.Bytes(c.t, c.rows, c.cols)
		assert.ErrorContains(t, err, c.want)
	}
}

func TestPackedRowsHaveTheMatrixsValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range append(floatTypes, intTypes...) {
		for _, rows := range []int{1, 15, 16, 17, 40} {
			cols, _ := typ.Block()
			cols *= 1 + rng.IntN(max(70/cols, 5))
			t.Run(fmt.Sprintf("%v/%dx%d", typ, rows, cols), func(t *testing.T) {
				m := randomMatrix(rng, typ, rows, cols)
				packed, _ := pack(m)
				got := make([]float32, cols)
				for r := range rows {
					panel.Row(got, packed, typ, cols, r)
					for c := range cols {
						want := value(m, r, c)
						size := math.Abs(want) // two terms, each rounded
						if typ.Quantized() {
							w := integerOf(typ, blockOf(m, r, c), c%elemsOf(typ))
							size = math.Abs(w.d*float64(w.scale*w.q)) + math.Abs(w.dmin*float64(w.minimum))
						}
						require.InDelta(t, want, got[c], 0x1p-23*size, "row %d, column %d", r, c)
					}
				}
				for r := rows; r%panel.Lanes != 0; r++ {
					panel.Row(got, packed, typ, cols, r)
					for c := range cols {
						require.Zero(t, got[c], "padding row %d, column %d", r, c)
					}
				}
			})
		}
	}
}

func elemsOf(t kernels.Type) int {
	elems, _ := t.Block()
	return elems
}

// blockOf is the file's block that holds an element.
func blockOf(m kernels.Matrix, row, col int) []byte {
	elems, size := m.Type.Block()
	return m.Data[(row*m.Cols+col)/elems*size:][:size]
}

// A row that was packed has the values of the format, to the bit, and panels are no
// larger than the file's bytes and 7 %; but grids, and digits in base 3, take up to
// twice as much.
func TestPackedRowsHaveTheFormatsBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, typ := range intTypes {
		f, cols := blocks.For(typ), elemsOf(typ)*2
		m := randomMatrix(rng, typ, 16, cols)
		packed, _ := pack(m)
		got, want := make([]float32, cols), make([]float32, cols)
		row, err := typ.RowBytes(cols)
		require.NoError(t, err)
		for r := range m.Rows {
			var u blocks.Unit
			for i := range f.Units(cols) {
				f.Unpack(&u, m.Data[int64(r)*row:][:row], i)
				f.Values(want[i*f.Cols:][:f.Cols], &u)
			}
			panel.Row(got, packed, typ, cols, r)
			requireSame(t, want, got, "%v, row %d", typ, r)
		}
		most := 1.07
		switch typ {
		case kernels.IQ1_S, kernels.IQ1_M, kernels.IQ2_XXS, kernels.IQ2_XS, kernels.IQ2_S, kernels.IQ3_XXS, kernels.IQ3_S, kernels.TQ1_0:
			most = 2
		}
		stride, err := panel.Stride(typ, 64*cols)
		require.NoError(t, err)
		assert.LessOrEqual(t, float64(stride), most*float64(64*row*panel.Lanes), typ)
	}
}

func TestHalfPrecisionIsExact(t *testing.T) {
	m := kernels.Matrix{Type: kernels.F16, Rows: 1, Cols: 1 << 16, Data: make([]byte, 2<<16)}
	for i := range m.Cols {
		le.PutUint16(m.Data[2*i:], uint16(i))
	}
	packed, _ := pack(m)
	got := make([]float32, m.Cols)
	panel.Row(got, packed, m.Type, m.Cols, 0)
	for i, g := range got {
		want := float32(halfValue(uint16(i)))
		if want != want {
			require.True(t, g != g, "%#04x is %v, not a NaN", i, g)
			continue
		}
		require.Equal(t, math.Float32bits(want), math.Float32bits(g), "%#04x", i)
	}
}
