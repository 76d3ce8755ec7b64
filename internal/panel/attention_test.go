package panel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// expBound is the relative error of a power of e.
const expBound = 0x1p-23

// requirePower checks that got is e^x.
func requirePower(t *testing.T, x, got float32) {
	want := math.Exp(float64(x))
	switch err := math.Abs(float64(got) - want); {
	case want >= 0x1p-126:
		if !(err < expBound*want) {
			t.Fatalf("e^%v is %v, got %v", x, want, got)
		}
	case want >= 0x1.0001p-1*0x1p-126*math.Sqrt2:
		if !(err < 0x1p-149) {
			t.Fatalf("e^%v is %v, got %v", x, want, got)
		}
	case want <= 0x0.ffffp-1*0x1p-126*math.Sqrt2:
		if got != 0 {
			t.Fatalf("e^%v, below 2^-126.5, is %v, not 0", x, got)
		}
	}
}

// The weights of scores below a largest of 0 are powers of e: those of every
// 61st float32, some 18 million.
func TestSoftenTakesPowersWithinTheirBound(t *testing.T) {
	step := uint32(61)
	if testing.Short() {
		step = 6101
	}
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		s, x := make([]float32, panel.Tokens), make([]float32, panel.Tokens)
		m, l, c := []float32{0}, []float32{0}, []float32{0}
		for b := uint32(0); b < math.Float32bits(110); {
			for i := range x {
				x[i] = -math.Float32frombits(b)
				b += step
			}
			copy(s, x)
			l[0] = 0
			k.Soften(s, len(s), 1, m, l, c)
			for i := range x {
				requirePower(t, x[i], s[i])
			}
			if sum := byHalves(s); l[0] != sum {
				t.Fatalf("of %v the sum by halves is %v, got %v", s, sum, l[0])
			}
		}
		require.Zero(t, m[0])
		require.EqualValues(t, 1, c[0])
	})
}

// byHalves sums 32 numbers as Soften says.
func byHalves(s []float32) float32 {
	s = append([]float32(nil), s...)
	for n := len(s) / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[n+i]
		}
	}
	return s[0]
}

// softened is some rows before and after a Soften.
type softened struct {
	before, s, m, l, c []float32
	m0, l0             []float32
}

func softenRandom(k *panel.Kernels, rng *rand.Rand, n, count int, scale float32) softened {
	r := softened{
		before: randomFloats(rng, n*panel.Tokens), s: make([]float32, n*panel.Tokens),
		m0: randomFloats(rng, n), l0: make([]float32, n), c: make([]float32, n),
	}
	for i := range n {
		r.l0[i] = rng.Float32() * 100
		if rng.IntN(3) == 0 { // the first block
			r.m0[i], r.l0[i] = -inf, 0
		}
		for t := range panel.Tokens {
			r.before[i*panel.Tokens+t] *= 10
			if t >= count { // left from another sequence
				r.before[i*panel.Tokens+t] = []float32{nan, inf, 1e30}[rng.IntN(3)]
			}
		}
	}
	copy(r.s, r.before)
	r.m, r.l = append(r.m, r.m0...), append(r.l, r.l0...)
	k.Soften(r.s, count, scale, r.m, r.l, r.c)
	return r
}

func TestSoftenIsAnOnlineSoftmax(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(23, 24))
		for count := 1; count <= panel.Tokens; count++ {
			n, scale := 1+rng.IntN(9), rng.Float32()
			r := softenRandom(k, rng, n, count, scale)
			for i := range n {
				before, s := r.before[i*panel.Tokens:][:count], r.s[i*panel.Tokens:][:panel.Tokens]
				most := r.m0[i]
				for _, v := range before {
					most = max(most, v*scale)
				}
				require.Equal(t, most, r.m[i], "the largest of %v", before)
				for t2, v := range before {
					requirePower(t, float32(v*scale)-most, s[t2])
				}
				for _, p := range s[count:] {
					require.Zero(t, p, "a weight that isn't seen")
				}
				requirePower(t, r.m0[i]-most, r.c[i])
				require.Equal(t, float32(r.l0[i]*r.c[i])+byHalves(s), r.l[i])
			}
		}
	})
}

func TestSoftenOfARowDoesNotDependOnTheOthers(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(25, 26))
		const n = 9
		for count := 1; count <= panel.Tokens; count++ {
			all := softenRandom(k, rng, n, count, 0.3)
			for i := range n {
				s := append([]float32(nil), all.before[i*panel.Tokens:][:panel.Tokens]...)
				m, l, c := []float32{all.m0[i]}, []float32{all.l0[i]}, []float32{0}
				k.Soften(s, count, 0.3, m, l, c)
				requireSame(t, all.s[i*panel.Tokens:][:count], s[:count], "weights of row %d", i)
				requireSame(t, []float32{all.m[i], all.l[i], all.c[i]}, []float32{m[0], l[0], c[0]}, "m, l and c of row %d", i)
			}
		}
	})
}

func TestSoftenShowsWhatIsWrong(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for name, c := range map[string]struct {
			m     float32
			s     []float32
			wrong bool
		}{
			"NaN":                      {-inf, []float32{1, nan, 2}, true},
			"NaN first":                {0, []float32{nan, 1}, true},
			"only NaN":                 {-inf, []float32{nan}, true},
			"infinity":                 {0, []float32{1, inf}, true},
			"only minus infinity":      {-inf, []float32{-inf, -inf}, true},
			"minus infinity and more":  {-inf, []float32{-inf, 3}, false},
			"minus infinity, later on": {2, []float32{-inf}, false},
			"far apart":                {-inf, []float32{-math.MaxFloat32, math.MaxFloat32}, false},
		} {
			s := append(append([]float32(nil), c.s...), make([]float32, panel.Tokens-len(c.s))...)
			m, l, f := []float32{c.m}, []float32{1}, []float32{0}
			k.Soften(s, len(c.s), 1, m, l, f)
			assert.Equal(t, c.wrong, l[0] != l[0], "%s: l is %v", name, l[0])
			most := c.m
			for _, v := range c.s {
				if v > most {
					most = v
				}
			}
			assert.Equal(t, most, m[0], "%s: the largest", name)
			if !c.wrong {
				for i, p := range s[:len(c.s)] {
					requirePower(t, c.s[i]-m[0], p)
				}
			}
		}
	})
}

// values are a block of random values in panels, of which the positions
// before from, and from count on, are NaN.
func values(rng *rand.Rand, typ kernels.Type, from, count, width int) (packed []byte, at func(t, e int) float64) {
	size := 4
	if typ == kernels.F16 {
		size = 2
	}
	packed = make([]byte, panel.Tokens*width*size)
	index := func(t, e int) int { return (e/panel.Lanes*panel.Tokens+t)*panel.Lanes + e%panel.Lanes }
	for t := range panel.Tokens {
		for e := range width {
			v := float32(rng.NormFloat64())
			if t < from || t >= count {
				v = nan
			}
			if typ == kernels.F16 {
				le.PutUint16(packed[2*index(t, e):], kernels.Float16bits(v))
			} else {
				le.PutUint32(packed[4*index(t, e):], math.Float32bits(v))
			}
		}
	}
	return packed, func(t, e int) float64 {
		if typ == kernels.F16 {
			return halfValue(le.Uint16(packed[2*index(t, e):]))
		}
		return float64(math.Float32frombits(le.Uint32(packed[4*index(t, e):])))
	}
}

func TestWeighIsWithinItsBoundOfFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(27, 28))
		for _, typ := range []kernels.Type{kernels.F32, kernels.F16} {
			for count := 1; count <= panel.Tokens; count++ {
				n, width := 1+rng.IntN(17), panel.Lanes*(1+rng.IntN(9))
				from := max(0, rng.IntN(2*count)-count)
				v, at := values(rng, typ, from, count, width)
				p, c, acc := randomFloats(rng, n*panel.Tokens), randomFloats(rng, n), randomFloats(rng, n*width+3)
				before := append([]float32(nil), acc...)
				k.Weigh(typ, v, from, count, p, c, acc, width, nil)
				for r := range n {
					for e := range width {
						want := float64(before[r*width+e]) * float64(c[r])
						size := math.Abs(want)
						for t := from; t < count; t++ {
							pv := float64(p[r*panel.Tokens+t]) * at(t, e)
							want += pv
							size += math.Abs(pv)
						}
						require.InDelta(t, want, acc[r*width+e], float64(count+3)*0x1p-24*size, "%v, %d positions, row %d of %d, element %d", typ, count, r, n, e)
					}
				}
				requireSame(t, before[n*width:], acc[n*width:], "what is behind the rows")

				one := append([]float32(nil), before...)
				for r := range n {
					k.Weigh(typ, v, from, count, p[r*panel.Tokens:], c[r:r+1], one[r*width:], width, nil)
				}
				requireSame(t, acc, one, "%v, %d positions, %d rows one by one", typ, count, n)
			}
		}
	})
}

// Scores are what Float has, whatever is fetched meanwhile, and nothing is written
// behind the rows.
func TestScoreIsFloatOfBothPanels(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(33, 34))
		for _, typ := range []kernels.Type{kernels.F32, kernels.F16} {
			for _, cols := range []int{1, 3, 4, 30, 64, 80, 128, 255, 256, 300} {
				keys, stride := pack(randomMatrix(rng, typ, panel.Tokens, cols))
				keys = append(keys[:cols*typeBytes(typ)*panel.Lanes:cols*typeBytes(typ)*panel.Lanes], keys[stride:][:cols*typeBytes(typ)*panel.Lanes]...)
				for n := range 18 {
					x, count := randomFloats(rng, n*cols), 1+rng.IntN(panel.Tokens)
					got := make([]float32, n*panel.Tokens+1)
					got[len(got)-1] = untouched
					next := make([]byte, len(keys))
					if rng.IntN(2) == 0 {
						next = nil
					}
					k.Score(typ, keys, cols, x, n, got, count, next)
					want := make([]float32, n*panel.Tokens)
					for half := 0; half < panel.Tokens; half += panel.Lanes {
						k.Float(typ, keys[half*cols*typeBytes(typ):], cols, x, cols, n, want[min(half, len(want)):], panel.Tokens)
					}
					for r := range n {
						requireSame(t, want[r*panel.Tokens:][:count], got[r*panel.Tokens:][:count], "%v, %d columns, %d positions, row %d of %d", typ, cols, count, r, n)
					}
					require.EqualValues(t, untouched, got[len(got)-1])
				}
			}
		}
	})
}

func typeBytes(t kernels.Type) int {
	_, size := t.Block()
	return size
}

func TestExpandIsExact(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(29, 30))
		scales := []uint16{0x0000, 0x8000, 0x7bff, 0x0001, 0x7c00, 0x7e00, 0x3c00, 0x2a37}
		for blocks := 1; blocks <= 5; blocks++ {
			dim := blocks * panel.Block
			src := make([]byte, blocks*544)
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			want := make([]float32, dim*panel.Lanes)
			for b := range blocks {
				block := src[b*544:][:544]
				for p := range panel.Lanes {
					h := scales[rng.IntN(len(scales))]
					le.PutUint16(block[2*p:], h)
					for e := range panel.Block {
						want[(b*panel.Block+e)*panel.Lanes+p] = float32(halfValue(h)) * float32(int8(block[32+e*panel.Lanes+p]))
					}
				}
			}
			got := make([]float32, len(want)+1)
			got[len(want)] = untouched
			k.ExpandKeys(got, src)
			requireSame(t, append(want, untouched), got, "%d blocks of keys", blocks)

			src = make([]byte, panel.Tokens*blocks*34)
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			count := 1 + rng.IntN(panel.Tokens)
			want, got = make([]float32, dim*panel.Tokens+1), make([]float32, dim*panel.Tokens+1)
			for i := range want {
				want[i], got[i] = untouched, untouched
			}
			for p := range count {
				for b := range blocks {
					block := src[(p*blocks+b)*34:][:34]
					h := scales[rng.IntN(len(scales))]
					le.PutUint16(block, h)
					for e := range panel.Block {
						d := b*panel.Block + e
						want[(d/panel.Lanes*panel.Tokens+p)*panel.Lanes+d%panel.Lanes] = float32(halfValue(h)) * float32(int8(block[2+e]))
					}
				}
			}
			k.ExpandValues(got, src, count)
			requireSame(t, want, got, "%d blocks of %d values", blocks, count)
		}
	})
}

func TestMistakesInAttentionPanic(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		f, v := make([]float32, 1024), make([]byte, 2048)
		for name, mistake := range map[string]func(){
			"no scores":         func() { k.Soften(f, 0, 1, f[:2], f[:2], f[:2]) },
			"many scores":       func() { k.Soften(f, 33, 1, f[:2], f[:2], f[:2]) },
			"short scores":      func() { k.Soften(f[:63:63], 1, 1, f[:2], f[:2], f[:2]) },
			"short sums":        func() { k.Soften(f, 1, 1, f[:2], f[:1:1], f[:2]) },
			"short factors":     func() { k.Soften(f, 1, 1, f[:2], f[:2], f[:1:1]) },
			"no keys":           func() { k.Score(kernels.F16, v, 0, f, 1, f, 1, nil) },
			"no scores at all":  func() { k.Score(kernels.F16, v, 16, f, 1, f, 0, nil) },
			"too many scores":   func() { k.Score(kernels.F16, v, 16, f, 1, f, 33, nil) },
			"a short page":      func() { k.Score(kernels.F16, v[:1023:1023], 16, f, 1, f, 32, nil) },
			"a short next page": func() { k.Score(kernels.F16, v, 16, f, 1, f, 32, v[:1023:1023]) },
			"short queries":     func() { k.Score(kernels.F16, v, 16, f[:31:31], 2, f, 32, nil) },
			"short rows":        func() { k.Score(kernels.F16, v, 16, f, 2, f[:63:63], 32, nil) },
			"short next values": func() { k.Weigh(kernels.F16, v, 0, 1, f, f[:1], f, 16, v[:1023:1023]) },
			"no positions":      func() { k.Weigh(kernels.F16, v, 0, 0, f, f[:1], f, 16, nil) },
			"none between":      func() { k.Weigh(kernels.F16, v, 3, 3, f, f[:1], f, 16, nil) },
			"many positions":    func() { k.Weigh(kernels.F16, v, 0, 33, f, f[:1], f, 16, nil) },
			"short values":      func() { k.Weigh(kernels.F16, v[:1023:1023], 0, 1, f, f[:1], f, 16, nil) },
			"broken panel":      func() { k.Weigh(kernels.F16, v, 0, 1, f, f[:1], f, 24, nil) },
			"short weights":     func() { k.Weigh(kernels.F16, v, 0, 1, f[:63:63], f[:2], f, 16, nil) },
			"short results":     func() { k.Weigh(kernels.F16, v, 0, 1, f, f[:2], f[:31:31], 16, nil) },
			"integer values":    func() { k.Weigh(kernels.Q8_0, v, 0, 1, f, f[:1], f, 16, nil) },
			"short keys":        func() { k.ExpandKeys(f[:511:511], v[:544]) },
			"short expansion":   func() { k.ExpandValues(f[:1023:1023], v[:1088], 1) },
			"many values":       func() { k.ExpandValues(f, v[:1088], 33) },
		} {
			assert.Panics(t, mistake, name)
		}
		k.Soften(nil, 1, 1, nil, nil, nil)
		k.Weigh(kernels.F32, nil, 0, 1, nil, nil, nil, 16, nil)
	})
}

func BenchmarkSoften(b *testing.B) {
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		for _, n := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("%s/n=%d", level, n), func(b *testing.B) {
				s := randomFloats(rand.New(rand.NewPCG(31, 32)), n*panel.Tokens)
				m, l, c := make([]float32, n), make([]float32, n), make([]float32, n)
				for b.Loop() {
					k.Soften(s, panel.Tokens, 0.1, m, l, c)
				}
			})
		}
	}
}

func BenchmarkWeigh(b *testing.B) {
	rng := rand.New(rand.NewPCG(33, 34))
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		b.Run(level, func(b *testing.B) {
			const n, width = 8, 64
			v, _ := values(rng, kernels.F16, 0, panel.Tokens, width)
			p, c, acc := randomFloats(rng, n*panel.Tokens), make([]float32, n), make([]float32, n*width)
			for b.Loop() {
				k.Weigh(kernels.F16, v, 0, panel.Tokens, p, c, acc, width, nil)
			}
		})
	}
}
