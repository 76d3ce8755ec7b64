package panel

import "math/bits"

// fours are 32 integers with which four multiply-adds take one multiplication
// of words: a word's 16-bit digits are every other of 8 columns', weights' in
// order and activations' in reverse, so that digit 3 of a product of words is
// the sum of four products. Digits may be negative: a word is the sum of its
// digits times their places' values, modulo 2^64. Words g and g+4 hold the even
// and the odd columns from 8g on.
type fours [Block / 4]uint64

const (
	everyNibble = 0x000f000f000f000f
	everyByte   = 0x00ff00ff00ff00ff
)

// digit3 is the third digit of a word whose digits all lie within ±32767.
func digit3(w uint64) int32 { return int32(int64(w+1<<47) >> 48) }

// activations returns a block's quantized numbers.
func (f *fours) activations(x []byte) {
	for g := range 4 {
		const flip, bias = 0x8080808080808080, 0x0080008000800080
		b := bits.ReverseBytes64(le.Uint64(x[8*g:])) ^ flip // biased by 128, which makes them positive
		f[g] = b>>8&everyByte - bias
		f[4+g] = b&everyByte - bias
	}
}

// nibbles returns a lane's four words of a block of Q4_K.
func (f *fours) nibbles(block []byte, lane int) {
	for g := range 4 {
		w := uint64(le.Uint32(block[2*Lanes+g*64+lane*4:]))
		w |= w << 28 // the high nibbles' columns follow the low ones'
		f[g] = w & everyNibble
		f[4+g] = w >> 8 & everyNibble
	}
}

// sixBits returns a lane's words of a block of Q6_K, less 32.
func (f *fours) sixBits(block []byte, lane int) {
	for g := range 4 {
		low := uint64(le.Uint32(block[2*Lanes+g*64+lane*4:]))
		high := uint64(le.Uint32(block[pairsQ6_K+g/2*64+lane*4:]) >> (g % 2 * 4))
		low |= low << 28
		high |= high << 30
		const nibbles, pairs, bias = 0x0f0f0f0f0f0f0f0f, 0x0303030303030303, 0x0020002000200020
		q := low&nibbles | high&pairs<<4
		f[g] = q&everyByte - bias
		f[4+g] = q>>8&everyByte - bias
	}
}

// nibbleSum is the sum of the products of nibbles and activations. Four words'
// third digits come to no more than 4·4·15·127 = 30480.
func nibbleSum(w, x *fours) int32 {
	return digit3(w[0]*x[0]+w[1]*x[1]+w[2]*x[2]+w[3]*x[3]) +
		digit3(w[4]*x[4]+w[5]*x[5]+w[6]*x[6]+w[7]*x[7])
}

// halfSums are those of six-bit weights, 16 columns each. Two words' third
// digits come to no more than 2·4·32·127 = 32512.
func halfSums(w, x *fours) (first, second int32) {
	return digit3(w[0]*x[0]+w[1]*x[1]) + digit3(w[4]*x[4]+w[5]*x[5]),
		digit3(w[2]*x[2]+w[3]*x[3]) + digit3(w[6]*x[6]+w[7]*x[7])
}
