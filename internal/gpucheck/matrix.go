package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

// patternBlocks is how many blocks are random; a matrix repeats them.
const patternBlocks = 1 << 12

// matrix is random, as a file has it. Its numbers are around 1.
func matrix(typ kernels.Type, rows, cols int) (kernels.Matrix, error) {
	m := kernels.Matrix{Name: "random " + typ.String(), Type: typ, Rows: rows, Cols: cols}
	bytes, err := typ.RowBytes(cols)
	if err != nil {
		return m, err
	}
	_, size := typ.Block()
	pattern := make([]byte, patternBlocks*size)
	rng := rand.New(rand.NewPCG(3, uint64(typ)))
	fill(pattern, rng)
	for b := pattern; len(b) > 0; b = b[size:] {
		scale(typ, b, 0.5+rng.Float32())
	}
	m.Data = make([]byte, int64(rows)*bytes)
	for rest := m.Data; len(rest) > 0; {
		rest = rest[copy(rest, pattern):]
	}
	return m, nil
}

// scale makes a block's numbers about as large as v.
func scale(typ kernels.Type, b []byte, v float32) {
	le := binary.LittleEndian
	half := func(at int, v float32) { le.PutUint16(b[at:], kernels.Float16bits(v)) }
	switch typ {
	case kernels.F32:
		le.PutUint32(b, math.Float32bits(v))
	case kernels.F16:
		half(0, v)
	case kernels.BF16:
		le.PutUint16(b, uint16(math.Float32bits(v)>>16))
	case kernels.Q8_0:
		half(0, v/127)
	case kernels.Q4_0:
		half(0, v/8)
	case kernels.Q4_K:
		half(0, v/1000)
		half(2, v/100)
	case kernels.Q6_K:
		half(208, v/4000)
	}
}
