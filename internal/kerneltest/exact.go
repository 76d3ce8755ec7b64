package kerneltest

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// block is how many columns share a scale, of activations too.
const block = 32

// weightBlock is a block of 32 columns of an integer weight, in the terms in which the
// kernels sum: an element is d·scale·q - dmin·minimum, with a scale for each half.
type weightBlock struct {
	q       [32]int
	d       float32 // the file's scale
	scale   [2]int  // of it, of both halves: 1 where the type has none
	dmin    float32
	minimum int
}

// blocks cuts a row of an integer type into its blocks of 32, by the layouts that
// kernels.Type documents.
func blocks(typ kernels.Type, row []byte) (all []weightBlock) {
	_, size := typ.Block()
	f16 := func(b []byte) float32 { return kernels.Float16frombits(le.Uint16(b)) }
	for ; len(row) > 0; row = row[size:] {
		switch typ {
		case kernels.Q8_0:
			p := weightBlock{d: f16(row), scale: [2]int{1, 1}}
			for i := range p.q {
				p.q[i] = int(int8(row[2+i]))
			}
			all = append(all, p)
		case kernels.Q4_0:
			p := weightBlock{d: f16(row), scale: [2]int{1, 1}}
			for i := range 16 {
				p.q[i], p.q[16+i] = int(row[2+i]&15)-8, int(row[2+i]>>4)-8
			}
			all = append(all, p)
		case kernels.Q4_K:
			s := row[4:16]
			for j := range 8 {
				p := weightBlock{d: f16(row), dmin: f16(row[2:])}
				if j < 4 {
					p.scale[0], p.minimum = int(s[j]&63), int(s[j+4]&63)
				} else {
					p.scale[0], p.minimum = int(s[j+4]&15|s[j-4]>>6<<4), int(s[j+4]>>4|s[j]>>6<<4)
				}
				p.scale[1] = p.scale[0]
				for i := range p.q {
					p.q[i] = int(row[16+j/2*32+i] >> (j % 2 * 4) & 15)
				}
				all = append(all, p)
			}
		case kernels.Q6_K:
			for j := range 8 {
				p := weightBlock{d: f16(row[208:])}
				for h := range 2 {
					p.scale[h] = int(int8(row[192+2*j+h]))
				}
				for i := range p.q {
					e := 32*j + i // of 256
					low := row[e/128*64+e%64] >> (e % 128 / 64 * 4) & 15
					high := row[128+e/128*32+e%32] >> (e % 128 / 32 * 2) & 3
					p.q[i] = int(high<<4|low) - 32
				}
				all = append(all, p)
			}
		}
	}
	return all
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
		for _, p := range blocks(m.Type, m.Data) {
			for i, q := range p.q {
				all = append(all, float64(p.d)*float64(p.scale[i/16])*float64(q)-float64(p.dmin)*float64(p.minimum))
			}
		}
	}
	return all
}
