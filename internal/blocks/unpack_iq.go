package blocks

import "math/bits"

// The types whose codes are looked up: eight or four columns at once in a grid, or one
// at a time among 16 levels. The signs of grids lie apart.

func unpackIQ4_XS(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	high := le.Uint16(src[2:])
	for j := range 8 {
		low := src[4+j/2] >> (j % 2 * 4) & 15
		u.Scales[j] = low | byte(high>>(2*j)&3)<<4 - 32
		nibbles(u.Codes[32*j:][:32], src[8+16*j:][:16])
	}
}

func unpackIQ2_XXS(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for j := range 8 {
		block := src[2+8*j:][:8]
		more := le.Uint32(block[4:])
		u.Scales[j] = byte(2*(more>>28) + 1)
		for l := range 4 {
			eight(u, j, l, gridIQ2_XXS[block[l]], evenSigns(more>>(7*l)))
		}
	}
}

func unpackIQ2_XS(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for j := range 8 {
		oddScales(u, j, src[66+j])
		for l := range 4 {
			q := le.Uint16(src[2+8*j+2*l:])
			eight(u, j, l, gridIQ2_XS[q&511], evenSigns(uint32(q>>9)))
		}
	}
}

func unpackIQ2_S(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	low, signs, high := src[2:34], src[34:66], src[66:74]
	for j := range 8 {
		oddScales(u, j, src[74+j])
		for l := range 4 {
			index := int(low[4*j+l]) | int(high[j])>>(2*l)&3<<8
			eight(u, j, l, gridIQ2_S[index], signs[4*j+l])
		}
	}
}

func unpackIQ3_XXS(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for j := range 8 {
		more := le.Uint32(src[66+4*j:])
		u.Scales[j] = byte(2*(more>>28) + 1)
		for l := range 4 {
			q := src[2+8*j+2*l:]
			fours(u, j, l, gridIQ3_XXS[q[0]], gridIQ3_XXS[q[1]], evenSigns(more>>(7*l)))
		}
	}
}

func unpackIQ3_S(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	low, high, signs, scales := src[2:66], src[66:74], src[74:106], src[106:110]
	for j := range 8 {
		u.Scales[j] = 2*(scales[j/2]>>(j%2*4)&15) + 1
		for l := range 4 {
			q, h := low[8*j+2*l:], int(high[j])>>(2*l)
			fours(u, j, l, gridIQ3_S[int(q[0])|h&1<<8], gridIQ3_S[int(q[1])|h>>1&1<<8], signs[4*j+l])
		}
	}
}

// unpackIQ1_S reads values g+δ, where g is -1, 0 or 1 and δ is ±1/8, the same for a
// block. Codes are g+1; so the minimum is 1-δ, of which M is eight times.
func unpackIQ1_S(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for j := range 8 {
		more := le.Uint16(src[34+2*j:])
		s := byte(2*(more>>12&7) + 1)
		u.Scales[2*j], u.Scales[2*j+1] = s, s*7
		if more&0x8000 != 0 {
			u.Scales[2*j+1] = s * 9
		}
		for l := range 4 {
			g := gridIQ1[int(src[2+4*j+l])|int(more>>(3*l)&7)<<8]
			for i := range 8 {
				u.Codes[32*j+8*l+i] = byte(g >> (2 * i) & 3)
			}
		}
	}
}

// unpackIQ1_M reads the same with a δ for each eight columns, which is part of their codes.
func unpackIQ1_M(u *Unit, src []byte) {
	u.D = 0
	for i := range 4 {
		u.D |= le.Uint16(src[48+2*i:]) >> 12 << (4 * i)
	}
	for j := range 8 {
		s := le.Uint16(src[48+j/2*2:]) >> (j % 2 * 6)
		u.Scales[j] = byte(2*(s&7)+1) | byte(2*(s>>3&7)+1)<<4
		for l := range 4 {
			h := src[32+2*j+l/2] >> (l % 2 * 4)
			g := gridIQ1[int(src[4*j+l])|int(h&7)<<8]
			for i := range 8 {
				u.Codes[32*j+8*l+i] = byte(g>>(2*i)&3) | h>>3&1<<2
			}
		}
	}
}

// eight writes group l of block j of a type with magnitudes of two bits: those of g,
// and their signs as bit 2.
func eight(u *Unit, j, l int, g uint16, signs byte) {
	codes := u.Codes[32*j+8*l:][:8]
	for i := range codes {
		codes[i] = byte(g>>(2*i)&3) | signs>>i&1<<2
	}
}

// fours writes group l of block j of a type with magnitudes of three bits: those of
// two entries, and their signs as bit 3.
func fours(u *Unit, j, l int, first, second uint16, signs byte) {
	codes := u.Codes[32*j+8*l:][:8]
	g := uint32(first) | uint32(second)<<12
	for i := range codes {
		codes[i] = byte(g>>(3*i)&7) | signs>>i&1<<3
	}
}

// evenSigns returns eight signs of which seven are given, since their number is even.
func evenSigns(s uint32) byte {
	s &= 127
	return byte(s) | byte(bits.OnesCount32(s)&1)<<7
}

// oddScales writes the two scales of block j that a byte holds.
func oddScales(u *Unit, j int, b byte) {
	u.Scales[2*j], u.Scales[2*j+1] = 2*(b&15)+1, 2*(b>>4)+1
}
