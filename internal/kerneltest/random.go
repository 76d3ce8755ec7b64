package kerneltest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

// le is how numbers lie in files, and on every device.
var le = binary.LittleEndian

// weightTypes are those that a weight may have: three of floats, then the quantized
// ones, the last two in blocks of 256.
var weightTypes = kernels.WeightTypes()

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
		case kernels.Q4_0:
			half(b, v/8)
		case kernels.Q4_K:
			half(b, v/400)
			half(b[2:], rng.NormFloat64()/60)
		case kernels.Q6_K:
			half(b[208:], v/2000)
		}
		m.Data = append(m.Data, b...)
	}
	return m
}
