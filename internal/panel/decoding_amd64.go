//go:build amd64 && !noasm

package panel

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// A decoding is what a kernel is told of a type that shares it with others: 16 bytes
// each of the values of the codes, made positive by an offset, of their low nibbles and
// of their high ones; at 48, the float32 factor of the scales; and at 56, the number of
// blocks of a unit.
type decoding = [64]byte

// A toldKernel is an intKernel but for the decoding.
type toldKernel struct {
	rows int
	run  func(p []byte, blocks int, x []byte, y []float32, yStride int, d *decoding)
}

// decoded returns the kernels of type t, whose values a kernel makes positive by adding
// offset.
func decoded(t kernels.Type, offset int, told []toldKernel) []intKernel {
	f := layouts[t].form
	var d decoding
	if f.Bits <= 4 {
		for code := range 1 << f.Bits {
			v := byte(f.Value(byte(code)) + offset)
			d[code], d[16+code], d[32+code] = v, v&15, v>>4
		}
	}
	le.PutUint32(d[48:], math.Float32bits(1/float32(int(1)<<f.Shift)))
	le.PutUint64(d[56:], uint64(f.Cols/Block))

	run := make([]intKernel, len(told))
	for i, k := range told {
		run[i] = intKernel{k.rows, func(p []byte, blocks int, x []byte, y []float32, yStride int) {
			k.run(p, blocks, x, y, yStride, &d)
		}}
	}
	return run
}
