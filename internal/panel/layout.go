package panel

import (
	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

// layout says where a panel of a quantized type has what. All follows from the form
// of the type's units.
type layout struct {
	form *blocks.Form

	// A unit is its header and its blocks of 32 columns.
	header, block, unit int // bytes

	// A block is its scales, and then the parts of its codes: bytes, or nibbles, pairs
	// of bits and single bits, each where the one before it ends. A part that a block
	// doesn't have is empty.
	nibbles, pairs, bits int // where they begin in a block
}

// The parts of the codes of 32 columns of 16 lanes, in bytes.
const (
	byteBytes   = Block * Lanes
	nibbleBytes = byteBytes / 2
	pairBytes   = byteBytes / 4
	bitBytes    = byteBytes / 8
)

// parts says which parts a code of some bits has.
func parts(bits int) (nibbles, pairs, single bool) {
	return bits >= 4 && bits < 8, bits == 2 || bits == 3 || bits == 6, bits == 1 || bits == 3 || bits == 5
}

// layouts has the layout of each quantized type.
var layouts = func() (all [kernels.Q2_0 + 1]layout) {
	for t := range all {
		if f := blocks.For(kernels.Type(t)); f != nil {
			all[t] = newLayout(f)
		}
	}
	return all
}()

func newLayout(f *blocks.Form) layout {
	l := layout{form: f}
	switch f.Header {
	case blocks.Half:
		l.header = 2 * Lanes
	case blocks.HalfPair:
		l.header = 4 * Lanes
	case blocks.Exponent:
		l.header = Lanes
	}
	nibbles, pairs, bits := parts(f.Bits)
	l.nibbles = f.Scales.Bytes() * Lanes
	l.pairs, l.bits, l.block = l.nibbles, l.nibbles, l.nibbles
	if f.Bits == 8 {
		l.block += byteBytes
	}
	if nibbles {
		l.pairs, l.bits, l.block = l.pairs+nibbleBytes, l.bits+nibbleBytes, l.block+nibbleBytes
	}
	if pairs {
		l.bits, l.block = l.bits+pairBytes, l.block+pairBytes
	}
	if bits {
		l.block += bitBytes
	}
	l.unit = l.header + f.Cols/Block*l.block
	return l
}

// putUnit writes a row's unit to its lane of dst, which is zeros there.
func (l *layout) putUnit(dst []byte, lane int, u *blocks.Unit) {
	switch l.form.Header {
	case blocks.HalfPair:
		le.PutUint16(dst[2*Lanes+2*lane:], u.M)
		fallthrough
	case blocks.Half:
		le.PutUint16(dst[2*lane:], u.D)
	case blocks.Exponent:
		dst[lane] = byte(u.D)
	}
	scales := l.form.Scales.Bytes()
	for j := range l.form.Cols / Block {
		block := dst[l.header+j*l.block:][:l.block]
		for i, s := range u.Scales[j*scales:][:scales] {
			block[i*Lanes+lane] = s
		}
		l.putCodes(block, lane, u.Codes[j*Block:][:Block])
	}
}

// putCodes writes the codes of 32 columns, eight bytes at a time.
func (l *layout) putCodes(block []byte, lane int, codes []byte) {
	const nibble, pair = 0x0f0f0f0f, 0x03030303
	if l.form.Bits == 8 {
		for g := range 8 {
			copy(block[l.nibbles+g*64+lane*4:][:4], codes[g*4:])
		}
		return
	}
	nibbles, pairs, bits := parts(l.form.Bits)
	shift := 0 // of the pairs, and then of the single bits, in a code
	if nibbles {
		for g := range 4 {
			w := le.Uint64(codes[8*g:])
			le.PutUint32(block[l.nibbles+g*64+lane*4:], uint32(w)&nibble|uint32(w>>32)&nibble<<4)
		}
		shift = 4
	}
	if pairs {
		for h := range 2 {
			w, v := le.Uint64(codes[16*h:])>>shift, le.Uint64(codes[16*h+8:])>>shift
			le.PutUint32(block[l.pairs+h*64+lane*4:],
				uint32(w)&pair|uint32(w>>32)&pair<<2|uint32(v)&pair<<4|uint32(v>>32)&pair<<6)
		}
		shift += 2
	}
	if bits {
		var all uint32
		for i := range 8 {
			all |= le.Uint32(codes[4*i:]) >> shift & 0x01010101 << i
		}
		le.PutUint32(block[l.bits+lane*4:], all)
	}
}

// getUnit reads the unit that putUnit wrote.
func (l *layout) getUnit(u *blocks.Unit, src []byte, lane int) {
	u.D, u.M = l.getHeader(src, lane)
	scales := l.form.Scales.Bytes()
	for j := range l.form.Cols / Block {
		block := src[l.header+j*l.block:][:l.block]
		for i := range scales {
			u.Scales[j*scales+i] = block[i*Lanes+lane]
		}
		l.getCodes(u.Codes[j*Block:][:Block], block, lane)
	}
}

func (l *layout) getHeader(src []byte, lane int) (d, m uint16) {
	switch l.form.Header {
	case blocks.HalfPair:
		m = le.Uint16(src[2*Lanes+2*lane:])
		fallthrough
	case blocks.Half:
		d = le.Uint16(src[2*lane:])
	case blocks.Exponent:
		d = uint16(src[lane])
	}
	return d, m
}

// getCodes reads the codes of a block of 32 columns.
func (l *layout) getCodes(codes, block []byte, lane int) {
	if l.form.Bits == 8 {
		for g := range 8 {
			copy(codes[g*4:][:4], block[l.nibbles+g*64+lane*4:])
		}
		return
	}
	nibbles, pairs, bits := parts(l.form.Bits)
	for g := range 8 { // four columns each
		var w uint32
		shift := 0
		if nibbles {
			w = le.Uint32(block[l.nibbles+g/2*64+lane*4:]) >> (g % 2 * 4) & 0x0f0f0f0f
			shift = 4
		}
		if pairs {
			w |= le.Uint32(block[l.pairs+g/4*64+lane*4:]) >> (g % 4 * 2) & 0x03030303 << shift
			shift += 2
		}
		if bits {
			w |= le.Uint32(block[l.bits+lane*4:]) >> g & 0x01010101 << shift
		}
		le.PutUint32(codes[4*g:], w)
	}
}
