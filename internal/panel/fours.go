package panel

import "math/bits"

// fours are 32 integers with which four multiply-adds take one multiplication
// of words: a word's 16-bit digits are every other of 8 columns', weights' in
// order and activations' in reverse, so that digit 3 of a product of words is
// the sum of four products. Digits may be negative: a word is the sum of its
// digits times their places' values, modulo 2^64. Words g and g+4 hold the even
// and the odd columns from 8g on.
type fours [Block / 4]uint64

const everyByte = 0x00ff00ff00ff00ff

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

// values returns 32 weights' values.
func (f *fours) values(v *[Block]int8) {
	for g := range 4 {
		var even, odd int64
		for i := 6; i >= 0; i -= 2 {
			even, odd = even<<16+int64(v[8*g+i]), odd<<16+int64(v[8*g+i+1])
		}
		f[g], f[4+g] = uint64(even), uint64(odd)
	}
}

// halfSums returns the sums of products of values up to 32 with the two halves of the
// activations. Two words' third digits come to no more than 2·4·32·127 = 32512.
func halfSums(v, x *fours) (first, second int32) {
	return digit3(v[0]*x[0]+v[1]*x[1]) + digit3(v[4]*x[4]+v[5]*x[5]),
		digit3(v[2]*x[2]+v[3]*x[3]) + digit3(v[6]*x[6]+v[7]*x[7])
}

// wordSums returns them for values up to 64, of which one word's third digit comes to
// no more than 4·64·127 = 32512.
func wordSums(v, x *fours) (first, second int32) {
	return digit3(v[0]*x[0]) + digit3(v[1]*x[1]) + digit3(v[4]*x[4]) + digit3(v[5]*x[5]),
		digit3(v[2]*x[2]) + digit3(v[3]*x[3]) + digit3(v[6]*x[6]) + digit3(v[7]*x[7])
}
