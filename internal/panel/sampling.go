package panel

import "math"

// WeightOne is the weight of a row's largest value: see Weights.
const WeightOne = 1 << weightBits

const (
	weightBits  = 40
	leastPower  = -42   // 2^-42 times WeightOne rounds to 0
	leastDouble = -1000 // of SumExp

	// atOnce is how many elements one call of a kernel sums up at most: the garbage
	// collector can't stop it meanwhile.
	atOnce = 1 << 16
)

// eighths has the bits of 2^(i/8), less i<<20.
var eighths = func() (bits [8]uint32) {
	for i := range bits {
		bits[i] = math.Float32bits(float32(math.Exp2(float64(i)/8))) - uint32(i)<<20
	}
	return bits
}()

// doublePower2 has the coefficients of Taylor's series of 2^f, from f¹⁰ down to f.
// For |f| ≤ 1/2 the remainder is below 3e-13.
var doublePower2 = func() (c [10]float64) {
	term := 1.0
	for i := range c {
		term *= math.Ln2 / float64(i+1)
		c[len(c)-1-i] = term
	}
	return c
}()

// ArgMax returns the index of the largest value of x, the first of equal ones.
// NaN counts as absent: if x has no number, the result is -1.
func (k *Kernels) ArgMax(x []float32) int {
	if at := k.find(x, k.largest(x)); at < len(x) {
		return at
	}
	return -1
}

// Count returns how many values of x are least or larger. NaN and -Inf are never
// counted.
func (k *Kernels) Count(x []float32, least float32) int {
	return k.count(x, max(least, -math.MaxFloat32))
}

func count(x []float32, least float32) int {
	n := 0
	for _, v := range x {
		if v >= least {
			n++
		}
	}
	return n
}

// Filter copies the values of x that are at least from and at most to, in order,
// to values, and their indices to ids. It returns their number. NaN and -Inf are
// never among them. Both destinations must have room for FilterRoom more values
// than x has, and what is behind the result may be overwritten. values may begin
// where x does.
func (k *Kernels) Filter(values []float32, ids []int32, x []float32, from, to float32) int {
	room := len(x) + FilterRoom
	return k.filter(values[:room], ids[:room], x, max(from, -math.MaxFloat32), to)
}

// FilterRoom is how many values more than x Filter's destinations have room for.
const FilterRoom = 16

func filter(values []float32, ids []int32, x []float32, from, to float32) int {
	n := 0
	for i, v := range x {
		if v >= from && v <= to {
			values[n], ids[n] = v, int32(i)
			n++
		}
	}
	return n
}

// Weights writes to dst, for each value of x, the integer nearest to
//
//	WeightOne · 2^((x-largest)·scale)
//
// where largest is at least every value of x, and scale is finite and not
// negative. The power is taken in float32, with y = (x-largest)·scale rounded
// after each operation, and a relative error below 2^-22 from there on; where y
// is below -42 or not a number, the weight is 0. The weight of x = largest is
// exactly WeightOne. Sums of weights are integers, so that no order of adding
// them up changes a sum, and 2^23 of them don't overflow.
//
// dst must have room for whole vectors of 16; what is behind the last weight there
// is set to 0. All levels give the same weights.
func (k *Kernels) Weights(dst []uint64, x []float32, largest, scale float32) {
	k.weights(dst[:(len(x)+15)/16*16], x, largest, scale)
}

func weights(dst []uint64, x []float32, largest, scale float32) {
	for i, v := range x {
		dst[i] = weight(v, largest, scale)
	}
	clear(dst[len(x):])
}

// weight is what Weights says. y is n/8 + f with |f| ≤ 1/16; 2^f is a polynomial that
// is exactly 1 at 0, with a relative error below 4e-8, whose products are rounded
// before they are added to, at every level; and 2^(n/8) is of a table.
func weight(x, largest, scale float32) uint64 {
	y := float32(float32(x-largest) * scale) // the conversion keeps it from being fused with a sum
	if !(y >= leastPower) {
		return 0
	}
	const round = 3<<19 + weightBits // adding it leaves eighths
	sum := y + round
	f := y - (sum - round)
	n := math.Float32bits(sum)
	p := float32(0x1.c6b8bep-5*f) + 0x1.ec0aa6p-3
	p = float32(p*f) + 0x1.62e43p-1
	p = float32(p*f) + 1
	p *= math.Float32frombits(eighths[n%8] + n<<20)
	const whole = 3 << 51 // adding it to a float64 leaves integers
	return math.Float64bits(float64(p)+whole) - math.Float64bits(whole)
}

// SumWeights returns the sum of the weights of the values of x that are at least
// from, as Weights defines them. NaN and -Inf have none.
func (k *Kernels) SumWeights(x []float32, from, largest, scale float32) (sum uint64) {
	from = max(from, -math.MaxFloat32)
	for ; len(x) > atOnce; x = x[atOnce:] {
		sum += k.sumWeights(x[:atOnce], from, largest, scale)
	}
	return sum + k.sumWeights(x, from, largest, scale)
}

func sumWeights(x []float32, from, largest, scale float32) uint64 {
	sum := uint64(0)
	for _, v := range x {
		if v >= from {
			sum += weight(v, largest, scale)
		}
	}
	return sum
}

// SplitWeights returns what SumWeights does, and the part of it of the values that
// are at least over.
func (k *Kernels) SplitWeights(x []float32, from, over, largest, scale float32) (sum, sumOver uint64) {
	from = max(from, -math.MaxFloat32)
	over = max(from, over)
	for ; ; x = x[atOnce:] {
		n := min(len(x), atOnce)
		s, o := k.splitWeights(x[:n], from, over, largest, scale)
		sum, sumOver = sum+s, sumOver+o
		if n == len(x) {
			return sum, sumOver
		}
	}
}

func splitWeights(x []float32, from, over, largest, scale float32) (sum, sumOver uint64) {
	for _, v := range x {
		if v >= from {
			w := weight(v, largest, scale)
			sum += w
			if v >= over {
				sumOver += w
			}
		}
	}
	return sum, sumOver
}

// SumExp returns the sum of e^(x-largest) in float64, where largest is finite and
// at least every value of x. Each power has a relative error below 1e-12; one
// below 2^-1000 is 0, and so is that of NaN. The sums of each 2^16 elements are added
// in order. Of 16 sums in them, the i-th takes the elements i, i+16, i+32 and so on,
// in order; then the upper 8 are added to the lower, of those the upper 4, and so on.
// All levels give the same bits.
func (k *Kernels) SumExp(x []float32, largest float32) (sum float64) {
	for ; len(x) > atOnce; x = x[atOnce:] {
		sum += k.sumExp(x[:atOnce], largest)
	}
	return sum + k.sumExp(x, largest)
}

func sumExp(x []float32, largest float32) float64 {
	var sum [16]float64
	for i, v := range x {
		y := float64(float64(float64(v)-float64(largest)) * math.Log2E)
		if !(y >= leastDouble) {
			continue
		}
		const round = 3 << 51
		n := float64(y+round) - round
		f := y - n
		p := doublePower2[0]
		for _, c := range doublePower2[1:] {
			p = float64(p*f) + c
		}
		p = float64(p*f) + 1
		sum[i%len(sum)] += math.Float64frombits(math.Float64bits(p) + uint64(int64(n))<<52)
	}
	for half := len(sum) / 2; half > 0; half /= 2 {
		for i := range half {
			sum[i] += sum[half+i]
		}
	}
	return sum[0]
}
