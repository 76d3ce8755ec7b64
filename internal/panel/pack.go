package panel

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/internal/blocks"
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
	default:
		l := &layouts[t]
		var u blocks.Unit
		elems, size := t.Block()
		for i := range len(src) / size * (elems / l.form.Cols) {
			l.form.Unpack(&u, src, i)
			l.putUnit(dst[i*l.unit:][:l.unit], lane, &u)
		}
	}
}

// Row writes one row of a packed matrix to dst, cols numbers, as float32: those
// that the format gives its numbers. packed is all panels of the matrix.
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
	default:
		l := &layouts[t]
		var unit blocks.Unit
		for i := range cols / u {
			l.getUnit(&unit, p[i*bytes:][:bytes], lane)
			l.form.Values(dst[i*u:][:u], &unit)
		}
	}
}
