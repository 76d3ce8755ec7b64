package panel

import "github.com/leat-dev/leat/kernels"

// Super is the number of columns of a superblock of Q4_K or Q6_K: 8 blocks with
// scales of their own, which are multiples of the superblock's.
const Super = 256

// Places in a superblock of a panel, and in its blocks.
const (
	minimumQ4_K = 2 * Lanes // the 16 dmin
	blocksQ4_K  = 4 * Lanes // the 8 blocks
	blockQ4_K   = 2*Lanes + Block*Lanes/2

	blocksQ6_K = 2 * Lanes
	pairsQ6_K  = 2*Lanes + Block*Lanes/2 // in a block, behind its nibbles
	blockQ6_K  = pairsQ6_K + Block*Lanes/4
)

// packQ4_K writes a row's superblock to its lane.
func packQ4_K(dst []byte, lane int, src []byte) {
	copy(dst[lane*2:][:2], src)
	copy(dst[minimumQ4_K+lane*2:][:2], src[2:])
	for j := range Super / Block {
		block := dst[blocksQ4_K+j*blockQ4_K:][:blockQ4_K]
		block[lane], block[Lanes+lane] = sixBits(src[4:16], j)
		q, shift := src[16+j/2*32:][:32], j%2*4
		for g := range 4 {
			const nibbles = 0x0f0f0f0f
			w, v := le.Uint32(q[g*8:])>>shift, le.Uint32(q[g*8+4:])>>shift
			le.PutUint32(block[2*Lanes+g*64+lane*4:], w&nibbles|v&nibbles<<4)
		}
	}
}

// sixBits returns the scale and the minimum of block j of a Q4_K superblock,
// from its 12 bytes of them.
func sixBits(s []byte, j int) (scale, minimum byte) {
	if j < 4 {
		return s[j] & 63, s[j+4] & 63
	}
	return s[j+4]&15 | s[j-4]>>6<<4, s[j+4]>>4 | s[j]>>6<<4
}

// packQ6_K writes a row's superblock to its lane.
func packQ6_K(dst []byte, lane int, src []byte) {
	copy(dst[lane*2:][:2], src[208:])
	for j := range Super / Block {
		block := dst[blocksQ6_K+j*blockQ6_K:][:blockQ6_K]
		block[lane], block[Lanes+lane] = src[192+2*j], src[192+2*j+1]
		// Four blocks share 64 bytes of nibbles and 32 of pairs of bits.
		half, k := j/4, j%4
		low, lowShift := src[64*half+k%2*32:][:32], k/2*4
		high, highShift := src[128+32*half:][:32], k*2
		for g := range 4 {
			const nibbles = 0x0f0f0f0f
			w, v := le.Uint32(low[g*8:])>>lowShift, le.Uint32(low[g*8+4:])>>lowShift
			le.PutUint32(block[2*Lanes+g*64+lane*4:], w&nibbles|v&nibbles<<4)
		}
		for g := range 2 {
			var w uint32
			for i := range 4 {
				w |= le.Uint32(high[g*16+i*4:]) >> highShift & 0x03030303 << (2 * i)
			}
			le.PutUint32(block[pairsQ6_K+g*64+lane*4:], w)
		}
	}
}

// elementQ4_K is column c of a superblock's lane. Both products are exact.
func elementQ4_K(p []byte, lane, c int) float32 {
	block := p[blocksQ4_K+c/Block*blockQ4_K:]
	q := block[2*Lanes+c%Block/8*64+lane*4+c%4] >> (c % 8 / 4 * 4) & 15
	d, dmin := half(p[lane*2:]), half(p[minimumQ4_K+lane*2:])
	return float32(d*float32(block[lane])*float32(q)) - float32(dmin*float32(block[Lanes+lane]))
}

// elementQ6_K is column c of a superblock's lane, exactly.
func elementQ6_K(p []byte, lane, c int) float32 {
	block := p[blocksQ6_K+c/Block*blockQ6_K:]
	c %= Block
	low := block[2*Lanes+c/8*64+lane*4+c%4] >> (c % 8 / 4 * 4) & 15
	high := block[pairsQ6_K+c/16*64+lane*4+c%4] >> (c % 16 / 4 * 2) & 3
	scale := int8(block[c/16*Lanes+lane])
	return half(p[lane*2:]) * float32(scale) * float32(int32(low|high<<4)-32)
}

func half(b []byte) float32 { return kernels.Float16frombits(le.Uint16(b)) }
