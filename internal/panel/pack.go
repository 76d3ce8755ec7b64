package panel

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/kernels"
)

var le = binary.LittleEndian

// Pack writes panel p of m, its rows 16p to 16p+15, to dst, which is the panel's
// stride long. The matrix must have been checked: a type with panels, and data
// for all its rows.
func Pack(dst []byte, m kernels.Matrix, p int) {
	clear(dst)
	elems, size := m.Type.Block()
	rowBytes := m.Cols / elems * size
	for lane := range min(Lanes, m.Rows-p*Lanes) {
		packRow(dst, m.Type, lane, m.Data[(p*Lanes+lane)*rowBytes:][:rowBytes])
	}
}

func packRow(dst []byte, t kernels.Type, lane int, src []byte) {
	switch t {
	case kernels.F32:
		for c := range len(src) / 4 {
			le.PutUint32(dst[(c*Lanes+lane)*4:], le.Uint32(src[c*4:]))
		}
	case kernels.F16, kernels.BF16:
		for c := range len(src) / 2 {
			le.PutUint16(dst[(c*Lanes+lane)*2:], le.Uint16(src[c*2:]))
		}
	case kernels.Q8_0:
		_, bytes := unit(t)
		for b := range len(src) / 34 {
			block, q := dst[b*bytes:][:bytes], src[b*34:][:34]
			copy(block[lane*2:][:2], q)
			for g := range 8 {
				// Adding 128 to a byte flips its highest bit.
				le.PutUint32(block[32+g*64+lane*4:], le.Uint32(q[2+g*4:])^0x80808080)
			}
		}
	case kernels.Q4_0:
		_, bytes := unit(t)
		for b := range len(src) / 18 {
			block, q := dst[b*bytes:][:bytes], src[b*18:][:18]
			copy(block[lane*2:][:2], q)
			for j := range 2 {
				// Eight bytes of a file hold columns 8j to 8j+7 in their low
				// nibbles, and those 16 further on in their high ones.
				w, v := le.Uint32(q[2+j*8:]), le.Uint32(q[6+j*8:])
				const low = 0x0f0f0f0f
				le.PutUint32(block[32+j*64+lane*4:], w&low|v&low<<4)
				le.PutUint32(block[32+(j+2)*64+lane*4:], w>>4&low|v&^low)
			}
		}
	case kernels.Q4_K, kernels.Q6_K:
		_, bytes := unit(t)
		_, size := t.Block()
		pack := packQ4_K
		if t == kernels.Q6_K {
			pack = packQ6_K
		}
		for b := range len(src) / size {
			pack(dst[b*bytes:][:bytes], lane, src[b*size:][:size])
		}
	}
}

// Row writes one row of a packed matrix to dst, cols numbers, as float32: every
// weight's exact value, or, of Q4_K, the float32 nearest to it. packed is all panels of the matrix.
func Row(dst []float32, packed []byte, t kernels.Type, cols, row int) {
	u, bytes := unit(t)
	stride := (cols/u*bytes + align - 1) / align * align
	p, lane := packed[row/Lanes*stride:][:stride], row%Lanes
	switch t {
	case kernels.F32:
		for c := range dst[:cols] {
			dst[c] = math.Float32frombits(le.Uint32(p[(c*Lanes+lane)*4:]))
		}
	case kernels.F16:
		for c := range dst[:cols] {
			dst[c] = kernels.Float16frombits(le.Uint16(p[(c*Lanes+lane)*2:]))
		}
	case kernels.BF16:
		for c := range dst[:cols] {
			dst[c] = math.Float32frombits(uint32(le.Uint16(p[(c*Lanes+lane)*2:])) << 16)
		}
	case kernels.Q8_0:
		for c := range dst[:cols] {
			block := p[c/Block*bytes:]
			q := block[32+c%Block/4*64+lane*4+c%4]
			dst[c] = kernels.Float16frombits(le.Uint16(block[lane*2:])) * float32(int32(q)-128)
		}
	case kernels.Q4_0:
		for c := range dst[:cols] {
			block := p[c/Block*bytes:]
			q := block[32+c%Block/8*64+lane*4+c%4] >> (c % 8 / 4 * 4) & 15
			dst[c] = kernels.Float16frombits(le.Uint16(block[lane*2:])) * float32(int32(q)-8)
		}
	case kernels.Q4_K:
		for c := range dst[:cols] {
			dst[c] = elementQ4_K(p[c/Super*bytes:], lane, c%Super)
		}
	case kernels.Q6_K:
		for c := range dst[:cols] {
			dst[c] = elementQ6_K(p[c/Super*bytes:], lane, c%Super)
		}
	}
}
