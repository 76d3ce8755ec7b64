package blocks

// The types whose file blocks have one or two floating-point numbers and codes. The
// layouts are those that package kernels describes at each type.

func unpackQ8_0(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for i, q := range src[2:34] {
		u.Codes[i] = q ^ 0x80 // q+128
	}
}

func unpackQ4_0(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	nibbles(u.Codes[:32], src[2:18])
}

func unpackQ4_1(u *Unit, src []byte) {
	u.D, u.M = le.Uint16(src), le.Uint16(src[2:])
	nibbles(u.Codes[:32], src[4:20])
}

func unpackQ5_0(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	nibbles(u.Codes[:32], src[6:22])
	fifthBits(u.Codes[:32], le.Uint32(src[2:]))
}

func unpackQ5_1(u *Unit, src []byte) {
	u.D, u.M = le.Uint16(src), le.Uint16(src[2:])
	nibbles(u.Codes[:32], src[8:24])
	fifthBits(u.Codes[:32], le.Uint32(src[4:]))
}

func unpackMXFP4(u *Unit, src []byte) {
	u.D = uint16(src[0])
	nibbles(u.Codes[:32], src[1:17])
}

// unpackNVFP4 reads 32 of a block's 64 columns.
func unpackNVFP4(u *Unit, src []byte, half int) {
	for i := range 2 {
		e := src[2*half+i]
		switch e {
		case 0x7f: // no number
			e = 0
		case 0xff:
			e = 0x7f
		}
		u.Scales[i] = e & 127
		nibbles(u.Codes[Group*i:][:Group], src[4+8*(2*half+i):][:8])
	}
}

func unpackQ1_0(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for i := range 128 {
		u.Codes[i] = src[2+i/8] >> (i % 8) & 1
	}
}

func unpackQ2_0(u *Unit, src []byte) {
	u.D = le.Uint16(src)
	for i := range 64 {
		u.Codes[i] = src[2+i/4] >> (i % 4 * 2) & 3
	}
}

func unpackTQ2_0(u *Unit, src []byte) {
	u.D = le.Uint16(src[64:])
	for i, b := range src[:64] {
		at := i/32*128 + i%32
		for n := range 4 {
			u.Codes[at+32*n] = b >> (2 * n) & 3
		}
	}
}

// unpackTQ1_0 reads numbers of base 3: a byte holds five digits as a fraction of 256,
// so that a digit is what exceeds 256 when the byte is multiplied by 3.
func unpackTQ1_0(u *Unit, src []byte) {
	u.D = le.Uint16(src[52:])
	at := 0
	for _, part := range []struct{ from, bytes, digits int }{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}} {
		for i, b := range src[part.from:][:part.bytes] {
			for n := range part.digits {
				u.Codes[at+n*part.bytes+i] = byte(uint16(b) * 3 >> 8)
				b *= 3
			}
		}
		at += part.bytes * part.digits
	}
}

// nibbles writes the low nibbles of src, then the high ones.
func nibbles(dst, src []byte) {
	low, high := dst[:len(src)], dst[len(src):][:len(src)]
	for i, b := range src {
		low[i], high[i] = b&15, b>>4
	}
}

// fifthBits adds bit i of bits to code i, as its bit of value 16.
func fifthBits(codes []byte, bits uint32) {
	for i := range codes {
		codes[i] |= byte(bits>>i&1) << 4
	}
}
