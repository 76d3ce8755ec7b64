package kerneltest

import (
	"math"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

// block is how many columns share a scale, of activations too.
const block = 32

// weightBlock is a block of 32 columns of an integer weight, in the terms in which the
// kernels sum: an element is d·scale·q - dmin·minimum, with a scale for each half.
type weightBlock struct {
	form    *blocks.Form
	q       [32]int
	d       [2]float32 // of both halves
	scale   [2]int     // 1 where the type has none
	dmin    float32
	minimum [2]int
}

// blocksOf cuts a row of an integer type into its blocks of 32.
func blocksOf(typ kernels.Type, row []byte) (all []weightBlock) {
	f := blocks.For(typ)
	elems, size := typ.Block()
	var u blocks.Unit
	for i := range len(row) / size * (elems / f.Cols) {
		f.Unpack(&u, row, i)
		d, dmin := f.HeaderScale(u.D, u.M)
		for j := range f.Cols / block {
			p := weightBlock{form: f, d: [2]float32{d, d}, scale: [2]int{1, 1}, dmin: dmin}
			b := u.Scales[j*f.Scales.Bytes():][:f.Scales.Bytes()]
			switch f.Scales {
			case blocks.NoScales:
				if f.HasMinimum() {
					p.minimum = [2]int{-1, -1}
				}
			case blocks.TwoFloats:
				p.d = [2]float32{blocks.SmallFloat(b[0]), blocks.SmallFloat(b[1])}
			default:
				s, m := f.Scales.Integers(b)
				p.scale, p.minimum = [2]int{int(s[0]), int(s[1])}, [2]int{int(m[0]), int(m[1])}
			}
			for c := range p.q {
				p.q[c] = f.Value(u.Codes[j*block+c])
			}
			all = append(all, p)
		}
	}
	return all
}

// exact is element i of the block, which is the difference of two terms.
func (p *weightBlock) exact(i int) (scaled, least float64) {
	h := i / 16
	if !p.form.HasMinimum() {
		return float64(p.d[h]) * float64(p.scale[h]) * float64(p.q[i]), 0
	}
	return float64(p.d[h]) * float64(p.scale[h]) * float64(p.q[i]), float64(p.dmin) * float64(p.minimum[h])
}

// Exact returns a matrix's numbers.
func Exact(m kernels.Matrix) []float64 {
	var all []float64
	_, size := m.Type.Block()
	for b := m.Data; len(b) > 0 && !m.Type.Quantized(); b = b[size:] {
		var v float32
		switch m.Type {
		case kernels.F32:
			v = math.Float32frombits(le.Uint32(b))
		case kernels.F16:
			v = kernels.Float16frombits(le.Uint16(b))
		case kernels.BF16:
			v = math.Float32frombits(uint32(le.Uint16(b)) << 16)
		}
		all = append(all, float64(v))
	}
	if m.Type.Quantized() {
		for _, p := range blocksOf(m.Type, m.Data) {
			for i := range p.q {
				scaled, least := p.exact(i)
				all = append(all, scaled-least)
			}
		}
	}
	return all
}
