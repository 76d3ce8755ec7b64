package gguftest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/leat-dev/leat/kernels"
)

// appendQ4_K appends a Q4_K block of 256 numbers, in ggml's format. The 16 levels of each 32
// numbers cover the range of these numbers and 0 evenly.
func appendQ4_K(b []byte, x []float32) []byte {
	var least, step [8]float32
	for j := range 8 {
		block := x[32*j:][:32]
		least[j] = -min(0, slices.Min(block))
		step[j] = (max(0, slices.Max(block)) + least[j]) / 15
	}
	b, d := appendHalf(b, slices.Max(step[:])/63)
	b, dmin := appendHalf(b, slices.Max(least[:])/63)
	var scales [12]byte
	var nibbles [128]byte
	for j := range 8 {
		scale, minimum := whole(step[j], d, 0, 63), whole(least[j], dmin, 0, 63)
		if j < 4 {
			scales[j] |= byte(scale)
			scales[j+4] |= byte(minimum)
		} else {
			scales[j+4] = byte(scale&15 | minimum&15<<4)
			scales[j-4] |= byte(scale >> 4 << 6)
			scales[j] |= byte(minimum >> 4 << 6)
		}
		for i, v := range x[32*j:][:32] {
			q := whole(v+dmin*float32(minimum), d*float32(scale), 0, 15)
			nibbles[j/2*32+i] |= byte(q << (j % 2 * 4))
		}
	}
	return append(append(b, scales[:]...), nibbles[:]...)
}

// appendQ6_K appends a Q6_K block of 256 numbers, in ggml's format. The largest absolute value of
// each 16 numbers is represented by level 31 or -31.
func appendQ6_K(b []byte, x []float32) []byte {
	var step [16]float32
	for i, v := range x {
		step[i/16] = max(step[i/16], v/31, -v/31)
	}
	half, d := appendHalf(nil, slices.Max(step[:])/127)
	var low [128]byte
	var high [64]byte
	var scales [16]byte
	for i, v := range x {
		scale := whole(step[i/16], d, 0, 127)
		scales[i/16] = byte(scale)
		q := whole(v, d*float32(scale), -32, 31) + 32
		part, r := i/128, i%128
		low[part*64+r%64] |= byte(q & 15 << (r / 64 * 4))
		high[part*32+r%32] |= byte(q >> 4 << (r / 32 * 2))
	}
	return append(append(append(append(b, low[:]...), high[:]...), scales[:]...), half...)
}

// appendHalf appends a number as a float16, and returns the rounded number.
func appendHalf(b []byte, f float32) ([]byte, float32) {
	h := kernels.Float16bits(f)
	return binary.LittleEndian.AppendUint16(b, h), kernels.Float16frombits(h)
}

// whole returns v/step rounded to an integer from least to most, or 0 if step is 0.
func whole(v, step float32, least, most int) int {
	if step == 0 {
		return 0
	}
	return min(most, max(least, int(math.Round(float64(v/step)))))
}
