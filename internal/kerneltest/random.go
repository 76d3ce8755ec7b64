package kerneltest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

// le is how numbers lie in files, and on every device.
var le = binary.LittleEndian

// types returns the types of the backend's weights: three of floats, then the quantized ones.
func (b Backend) types() []kernels.Type {
	if b.Types != nil {
		return b.Types
	}
	return kernels.WeightTypes()
}

// floats and integers are the two kinds among them; of the integer ones those of which
// cols columns are whole blocks.
func (b Backend) floats() []kernels.Type { return b.types()[:3] }

func (b Backend) integers(cols int) (all []kernels.Type) {
	for _, t := range b.types()[3:] {
		if whole(t, cols) == cols {
			all = append(all, t)
		}
	}
	return all
}

// each returns n for each of the types.
func each(types []kernels.Type, n int) []int {
	all := make([]int, len(types))
	for i := range all {
		all[i] = n
	}
	return all
}

// CacheTypes are those that a cache may have.
var CacheTypes = []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0}

var inf = float32(math.Inf(1))

// NaN is what a test looks for where nothing should be written.
var NaN = float32(math.NaN())

// nans returns n of them.
func nans(n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = NaN
	}
	return all
}

// NewRand returns a generator of the same numbers every time.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 20)) }

// Normals returns n normally distributed numbers.
func Normals(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// whole is cols, or as many as fill the last block of a type.
func whole(typ kernels.Type, cols int) int {
	elems, _ := typ.Block()
	return (cols + elems - 1) / elems * elems
}

// Matrix returns a random matrix of any type, named w, as a file has it. Its numbers
// are around 1.
func Matrix(rng *rand.Rand, typ kernels.Type, rows, cols int) kernels.Matrix {
	elems, size := typ.Block()
	m := kernels.Matrix{Name: "w", Type: typ, Rows: rows, Cols: cols}
	half := func(b []byte, v float64) { le.PutUint16(b, kernels.Float16bits(float32(v))) }
	for range rows * cols / elems {
		b, v := make([]byte, size), rng.NormFloat64()
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		switch typ {
		case kernels.F32:
			le.PutUint32(b, math.Float32bits(float32(v)))
		case kernels.F16:
			half(b, v)
		case kernels.BF16:
			le.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
		case kernels.Q8_0:
			half(b, v/127)
			for i, q := range b[2:] {
				if q == 0x80 {
					b[2+i] = 0x81 // files have -127 to 127
				}
			}
		case kernels.Q4_0, kernels.Q2_0:
			half(b, v/8)
		case kernels.Q5_0:
			half(b, v/16)
		case kernels.Q4_1, kernels.Q5_1:
			half(b, v/16)
			half(b[2:], rng.NormFloat64())
		case kernels.Q2_K:
			half(b[80:], v/24)
			half(b[82:], rng.NormFloat64()/15)
		case kernels.Q3_K:
			half(b[108:], v/100)
		case kernels.Q4_K, kernels.Q5_K:
			half(b, v/400)
			half(b[2:], rng.NormFloat64()/60)
		case kernels.Q6_K:
			half(b[208:], v/2000)
		case kernels.IQ1_S:
			half(b, v/10)
		case kernels.IQ1_M: // d lies in the upper four bits of four words
			h := kernels.Float16bits(float32(v / 10))
			for i := range 4 {
				b[49+2*i] = b[49+2*i]&15 | byte(h>>(4*i)&15)<<4
			}
		case kernels.IQ2_XXS, kernels.IQ2_XS, kernels.IQ2_S, kernels.IQ3_XXS:
			half(b, v/100)
		case kernels.IQ3_S:
			half(b, v/200)
		case kernels.IQ4_NL:
			half(b, v/100)
		case kernels.IQ4_XS:
			half(b, v/2000)
		case kernels.TQ1_0:
			half(b[52:], v)
		case kernels.TQ2_0:
			half(b[64:], v)
		case kernels.Q1_0:
			half(b, v)
		case kernels.MXFP4:
			b[0] = byte(122 + rng.IntN(5))
		case kernels.NVFP4:
			for i := range 4 {
				b[i] = byte(8*4 + rng.IntN(8*3)) // 2^-4 to 2^-1, halved
			}
		}
		m.Data = append(m.Data, b...)
	}
	return m
}
