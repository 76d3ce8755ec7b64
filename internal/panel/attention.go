package panel

import (
	"fmt"

	"github.com/leat-dev/leat/kernels"
)

// Tokens is the number of positions whose scores make a row of attention's
// kernels.
const Tokens = kernels.PageTokens

type weighKernel struct {
	rows int
	run  func(values []byte, panels, count int, p, c, acc []float32, next []byte)
}

type scoreKernel struct {
	rows int
	run  func(keys []byte, cols int, x, s []float32, next []byte)
}

// Score multiplies a page of keys of cols elements, F32 or F16, by n rows: row r is
// x[r·cols], and its products with the first count positions are at s[32r], each summed
// as Float has it. The page is two panels of 16 positions. What lies in s behind count
// may be overwritten.
//
// Next is the page that will be read next, which is fetched meanwhile; nil, where there
// is none.
func (k *Kernels) Score(t kernels.Type, keys []byte, cols int, x []float32, n int, s []float32, count int, next []byte) {
	if n <= 0 {
		return
	}
	if cols < 1 || count < 1 || count > Tokens {
		panic(fmt.Sprintf("panel: the scores of %d positions of %d elements", count, cols))
	}
	_, bytes := unit(t)
	keys, x, s = keys[:2*cols*bytes], x[:n*cols], s[:n*Tokens]
	if next != nil {
		next = next[:len(keys)]
	}
	r := 0
	if count > Lanes && cols <= Segment {
		for _, v := range k.score[t-kernels.F32] {
			for ; n-r >= v.rows; r += v.rows {
				v.run(keys, cols, x[r*cols:], s[r*Tokens:], ahead(next, keys))
				next = nil
			}
		}
	}
	Fetch(next)
	for half := 0; r < n && half < count; half += Lanes {
		k.Float(t, keys[half*cols*bytes/Lanes:], cols, x[r*cols:], cols, n-r, s[r*Tokens+half:], Tokens)
	}
}

// ahead returns next or, where that is none, now: to fetch what is being read costs
// nothing.
func ahead(next, now []byte) []byte {
	if next == nil {
		return now
	}
	return next
}

// Soften takes a block of scores into rows of an online softmax (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018). Row r's scores
// are s[32r], of which the first count are seen; its state is m[r], the largest
// so far, and l[r], the sum of weights. It does, each operation rounded to
// float32,
//
//	s = s·scale   m' = max(m, s…)   p = e^(s-m')
//	c = e^(m-m')   l = l·c + Σp   m = m'
//
// and leaves p in place of s, and c. Σp is summed by halves: of the 32, those
// not seen being 0, the upper 16 are added to the lower, then of those the upper
// 8, and so on. A weight below 2^-126.5 is 0. A NaN among the scores makes l NaN.
//
// What lies in s behind the first count is not read, but overwritten.
func (k *Kernels) Soften(s []float32, count int, scale float32, m, l, c []float32) {
	n := len(m)
	if n == 0 {
		return
	}
	if count < 1 || count > Tokens {
		panic(fmt.Sprintf("panel: the softmax of %d scores", count))
	}
	k.soften(s[:n*Tokens], count, scale, m, l[:n], c[:n])
}

func soften(s []float32, count int, scale float32, m, l, c []float32) {
	for r := range m {
		s, most := s[r*Tokens:][:Tokens], m[r]
		for t, v := range s[:count] {
			v = float32(v * scale) // rounded before the largest is taken away
			s[t] = v
			if v > most {
				most = v
			}
		}
		for t, v := range s[:count] {
			s[t] = exp(v - most)
		}
		clear(s[count:])
		var sum [Tokens / 2]float32
		for t := range sum {
			sum[t] = s[t] + s[Tokens/2+t]
		}
		for half := len(sum) / 2; half > 0; half /= 2 {
			for t := range half {
				sum[t] += sum[half+t]
			}
		}
		c[r] = exp(m[r] - most)
		l[r] = float32(l[r]*c[r]) + sum[0]
		m[r] = most
	}
}

// Weigh adds the weighted values of a block to rows of an online softmax: acc =
// acc·c + Σ p·v. Values are F32 or F16, panel after panel of 16 elements at 32
// positions each, of which those from from to count-1 are read. Row r has the weights
// p[32r], the factor c[r], and as many elements in acc, width, as the panels have.
//
// The sum is taken in order, from +0, before acc·c is added; both by fused
// multiply-adds, or by a multiplication and an addition at the portable level.
//
// Next is the block of values that will be read next, which is fetched meanwhile; nil,
// where there is none.
func (k *Kernels) Weigh(t kernels.Type, values []byte, from, count int, p, c, acc []float32, width int, next []byte) {
	variants, n := k.weigh[t-kernels.F32], len(c)
	if n == 0 {
		return
	}
	panels := width / Lanes
	if from < 0 || count <= from || count > Tokens || panels < 1 || width%Lanes != 0 {
		panic(fmt.Sprintf("panel: positions %d to %d of values of %d elements", from, count, width))
	}
	_, bytes := unit(t)
	values, p, acc = values[:panels*Tokens*bytes], p[:n*Tokens], acc[:n*width]
	next = ahead(next, values)[from*bytes : len(values)] // a position of a panel is a unit of its own
	values = values[from*bytes:]
	r := 0
	for _, v := range variants {
		for ; n-r >= v.rows; r += v.rows {
			v.run(values, panels, count-from, p[r*Tokens+from:], c[r:], acc[r*width:], next)
			next = values
		}
	}
}

func weighF32(values []byte, panels, count int, p, c, acc []float32, _ []byte) {
	weigh(kernels.F32, values, panels, count, p, c, acc)
}

func weighF16(values []byte, panels, count int, p, c, acc []float32, _ []byte) {
	weigh(kernels.F16, values, panels, count, p, c, acc)
}

func weigh(t kernels.Type, values []byte, panels, count int, p, c, acc []float32) {
	var sum [Lanes]float32
	_, bytes := unit(t)
	for i := range panels {
		float(t, values[i*Tokens*bytes:], count, p, sum[:])
		acc := acc[i*Lanes:][:Lanes]
		for l, s := range sum {
			acc[l] = float32(acc[l]*c[0]) + s
		}
	}
}

// Keys and values in Q8_0, as a cache holds them, are brought to F32 before they
// are multiplied. All levels give the same bits.
const (
	// keyBlock is 32 elements of 16 positions' keys: the positions' scales in
	// F16, then an int8 of each position for every element.
	keyBlock = Block*Lanes + 2*Lanes
	// valueBlock is 32 elements of one position's values, as in a file: a
	// scale in F16, then an int8 for each element.
	valueBlock = Block + 2
)

// ExpandKeys writes a panel in Q8_0, 16 positions' keys, to one in F32:
//
//	| 16 scales, F16 | e0: p0 p1 … p15 | e1: p0 … p15 | … e31 | 16 scales | e32: …
//
// where e is an element and p a position; a number is one byte.
func (k *Kernels) ExpandKeys(dst []float32, src []byte) {
	blocks := len(src) / keyBlock
	if blocks > 0 {
		k.expandKeys(dst[:blocks*Block*Lanes], src, blocks)
	}
}

func expandKeys(dst []float32, src []byte, blocks int) {
	for range blocks {
		scales, q := src[:2*Lanes], src[2*Lanes:keyBlock]
		for i, b := range q {
			dst[i] = kernels.Float16frombits(le.Uint16(scales[i%Lanes*2:])) * float32(int8(b))
		}
		dst, src = dst[Block*Lanes:], src[keyBlock:]
	}
}

// ExpandValues writes a block of values in Q8_0, of which the first count
// positions are wanted, to panels in F32 as Weigh takes them. src is all 32
// positions', each of them Q8_0 as in a file.
func (k *Kernels) ExpandValues(dst []float32, src []byte, count int) {
	blocks := len(src) / (Tokens * valueBlock)
	if blocks < 1 || count < 1 {
		return
	}
	if count > Tokens {
		panic(fmt.Sprintf("panel: %d positions of a block of values", count))
	}
	k.expandValues(dst[:blocks*Block*Tokens], src, count, blocks)
}

func expandValues(dst []float32, src []byte, count, blocks int) {
	for t := range count {
		for b := range blocks {
			block := src[(t*blocks+b)*valueBlock:][:valueBlock]
			scale := kernels.Float16frombits(le.Uint16(block))
			for i, q := range block[2:] {
				dst[((b*2+i/Lanes)*Tokens+t)*Lanes+i%Lanes] = scale * float32(int8(q))
			}
		}
	}
}
