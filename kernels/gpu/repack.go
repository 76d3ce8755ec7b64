package gpu

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/kernels"
)

var le = binary.LittleEndian

// repack writes segment u of a matrix, counted over all panels, to dst, which has
// its size. The matrix must have been checked: data for all its rows.
func (l *layout) repack(dst []byte, m *kernels.Matrix, u int64) {
	clear(dst)
	panel, s := int(u/int64(l.segments())), int(u%int64(l.segments()))
	elems, size := m.Type.Block()
	rowBytes := m.Cols / elems * size
	from, to := s*segment, min((s+1)*segment, m.Cols)
	for lane := range min(l.lanes, m.Rows-panel*l.lanes) {
		row := m.Data[(panel*l.lanes+lane)*rowBytes:][:rowBytes]
		src := row[from/elems*size : to/elems*size]
		if l.lanes == 1 {
			widen(dst, m.Type, src)
		} else {
			lay(dst[lane*chunk:], m.Type, src)
		}
	}
}

// widen writes a vector's elements as F32.
func widen(dst []byte, t kernels.Type, src []byte) {
	switch t {
	case kernels.F32:
		copy(dst, src)
	case kernels.F16:
		for i := 0; i < len(src); i += 2 {
			le.PutUint32(dst[2*i:], math.Float32bits(kernels.Float16frombits(le.Uint16(src[i:]))))
		}
	case kernels.BF16:
		for i := 0; i < len(src); i += 2 {
			le.PutUint32(dst[2*i:], uint32(le.Uint16(src[i:]))<<16)
		}
	}
}

// lay writes a row's segment to the chunks of its lane; dst begins at the first.
func lay(dst []byte, t kernels.Type, src []byte) {
	const next = warp * chunk // bytes from a chunk of a lane to its next
	switch t {
	case kernels.F32, kernels.F16, kernels.BF16:
		for c := 0; c*chunk < len(src); c++ {
			copy(dst[c*next:][:chunk], src[c*chunk:])
		}
	case kernels.Q8_0, kernels.Q4_0:
		_, size := t.Block()
		each := (size - 2) / chunk
		for b := range len(src) / size {
			in := src[b*size:][:size]
			copy(dst[2*b:][:2], in)
			for c := range each {
				copy(dst[(1+b*each+c)*next:][:chunk], in[2+c*chunk:])
			}
		}
	case kernels.Q4_K, kernels.Q6_K:
		// The last chunk of Q6_K is its d alone, and stays zeros behind that.
		for c := 0; c*chunk < len(src); c++ {
			copy(dst[c*next:][:min(chunk, len(src)-c*chunk)], src[c*chunk:])
		}
	}
}
