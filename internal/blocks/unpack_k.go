package blocks

// The types of 256 columns with integer scales, Q2_K to Q6_K.

func unpackQ2_K(u *Unit, src []byte) {
	copy(u.Scales[:16], src)
	pairs(&u.Codes, src[16:80])
	u.D, u.M = le.Uint16(src[80:]), le.Uint16(src[82:])
}

// pairs reads two bits a code: byte i of each 32 holds, from the lowest bits up, the
// elements i, i+32, i+64 and i+96 of 128.
func pairs(codes *[MaxCols]byte, src []byte) {
	for i, b := range src {
		at := i/32*128 + i%32
		for n := range 4 {
			codes[at+32*n] = b >> (2 * n) & 3
		}
	}
}

func unpackQ3_K(u *Unit, src []byte) {
	high, scales := src[:32], src[96:108]
	pairs(&u.Codes, src[32:96])
	for i := range u.Codes {
		u.Codes[i] |= high[i%32] >> (i / 32) & 1 << 2
	}
	for j := range 16 {
		low := scales[j%8] >> (j / 8 * 4) & 15
		u.Scales[j] = low | scales[8+j%4]>>(j/4*2)&3<<4 - 32
	}
	u.D = le.Uint16(src[108:])
}

func unpackQ4_K(u *Unit, src []byte) {
	u.D, u.M = le.Uint16(src), le.Uint16(src[2:])
	sixBits(u, src[4:16])
	nibblePairs(&u.Codes, src[16:144])
}

func unpackQ5_K(u *Unit, src []byte) {
	u.D, u.M = le.Uint16(src), le.Uint16(src[2:])
	sixBits(u, src[4:16])
	nibblePairs(&u.Codes, src[48:176])
	high := src[16:48]
	for i := range u.Codes {
		u.Codes[i] |= high[i%32] >> (i / 32) & 1 << 4
	}
}

// sixBits reads eight scales and eight minima of six bits each.
func sixBits(u *Unit, s []byte) {
	for j := range 4 {
		u.Scales[2*j], u.Scales[2*j+1] = s[j]&63, s[j+4]&63
		u.Scales[8+2*j] = s[j+8]&15 | s[j]>>6<<4
		u.Scales[8+2*j+1] = s[j+8]>>4 | s[j+4]>>6<<4
	}
}

// nibblePairs reads codes of which each 32 bytes hold 32 in their low nibbles, and the
// next 32 in their high ones.
func nibblePairs(codes *[MaxCols]byte, src []byte) {
	for j := range 4 {
		nibbles(codes[64*j:][:64], src[32*j:][:32])
	}
}

func unpackQ6_K(u *Unit, src []byte) {
	low, high := src[:128], src[128:192]
	for half := range 2 {
		codes := u.Codes[128*half:][:128]
		l, h := low[64*half:][:64], high[32*half:][:32]
		for i := range 32 {
			codes[i] = l[i]&15 | h[i]&3<<4
			codes[i+32] = l[i+32]&15 | h[i]>>2&3<<4
			codes[i+64] = l[i]>>4 | h[i]>>4&3<<4
			codes[i+96] = l[i+32]>>4 | h[i]>>6<<4
		}
	}
	copy(u.Scales[:16], src[192:208])
	u.D = le.Uint16(src[208:])
}
