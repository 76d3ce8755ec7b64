package sampling

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// reference chooses as the package comment says, by ordering the whole row.
func reference(p Params, row []float32, tokens []int32) (int32, error) {
	logits := slices.Clone(row)
	for id, add := range p.Bias {
		if int(id) < len(logits) {
			logits[id] += add
		}
	}
	if p.RepeatPenalty != 0 && p.RepeatPenalty != 1 {
		seen := map[int32]bool{}
		for i := len(tokens) - 1; i >= 0 && i >= len(tokens)-64; i-- {
			id := tokens[i]
			if seen[id] || id < 0 || int(id) >= len(logits) {
				continue
			}
			seen[id] = true
			if logits[id] > 0 {
				logits[id] /= float32(p.RepeatPenalty)
			} else {
				logits[id] *= float32(p.RepeatPenalty)
			}
		}
	}
	var order []int32
	for id, l := range logits {
		if !math.IsNaN(float64(l)) {
			order = append(order, int32(id))
		}
	}
	if len(order) == 0 {
		return 0, fmt.Errorf("no logit of token %d is a number", len(tokens))
	}
	mostLikelyFirst(order, logits)
	largest := logits[order[0]]
	if len(p.Bias) > 0 && math.IsInf(float64(largest), -1) {
		return 0, fmt.Errorf("the biases leave no token for position %d", len(tokens))
	}
	if p.Temperature == 0 || math.IsInf(float64(largest), 0) {
		return order[0], nil
	}
	if p.TopK > 0 && p.TopK < len(order) {
		order = order[:p.TopK]
	}
	if p.TopP > 0 && p.TopP < 1 {
		w, total := definedWeights(logits, order, float32(math.Log2E))
		need, sum := uint64(math.Ceil(p.TopP*float64(total))), uint64(0)
		for i, x := range w {
			if sum += x; sum >= need {
				order = order[:i+1]
				break
			}
		}
	}
	if p.MinP > 0 {
		n := 1
		for n < len(order) && float64(logits[order[n]]) >= float64(largest)+math.Log(p.MinP) {
			n++
		}
		order = order[:n]
	}
	scale := math.Log2E / p.Temperature
	if scale > math.MaxFloat32 {
		scale = math.MaxFloat32
	}
	w, total := definedWeights(logits, order, float32(scale))
	var source rand.PCG
	source.Seed(p.Seed, uint64(len(tokens)))
	at := new(big.Int).SetUint64(source.Uint64())
	at.Rsh(at.Mul(at, new(big.Int).SetUint64(total)), 64)
	sum := uint64(0)
	for i, x := range w {
		if sum += x; sum > at.Uint64() {
			return order[i], nil
		}
	}
	return 0, fmt.Errorf("nothing drawn")
}

func mostLikelyFirst(ids []int32, logits []float32) {
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
}

// skipLongRows skips a test under the race detector, where long rows take minutes: the
// pool forgets at random, and the reference is slow. The code has no goroutine.
func skipLongRows(t *testing.T) {
	if race {
		t.Skip("long rows are not tested under the race detector")
	}
}

// definedWeights returns the weights of tokens and their sum.
func definedWeights(logits []float32, order []int32, scale float32) (w []uint64, total uint64) {
	for _, id := range order {
		x := definedWeight(logits[id], logits[order[0]], scale)
		w, total = append(w, x), total+x
	}
	return w, total
}

// definedWeight is what panel.Kernels.Weights says, with the power of each eighth
// taken of the math package.
func definedWeight(l, largest, scale float32) uint64 {
	y := float32(l-largest) * scale
	if math.IsNaN(float64(y)) || y < -42 {
		return 0
	}
	eighths := math.RoundToEven(8 * float64(y))
	f := float32(float64(y) - eighths/8)
	p := float32(0x1.c6b8bep-5*f) + 0x1.ec0aa6p-3
	p = float32(p*f) + 0x1.62e43p-1
	p = float32(p*f) + 1
	whole := math.Floor(eighths / 8)
	p *= float32(math.Exp2(eighths/8 - whole))
	return uint64(math.RoundToEven(math.Ldexp(float64(p), int(whole)+40)))
}

// randomRow returns a row of one of many kinds.
func randomRow(rng *rand.Rand) []float32 {
	n := 1 + rng.IntN(700)
	switch rng.IntN(12) {
	case 0:
		n = 1 + rng.IntN(3)
	case 1:
		n = 16000 + rng.IntN(6000)
	case 2:
		n = 1 + rng.IntN(5000)
	}
	row := make([]float32, n)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	kind, spread := rng.IntN(14), math.Exp(4*rng.Float64()-1)
	for i := range row {
		x := float32(rng.NormFloat64() * spread)
		switch kind {
		case 0:
			x = 3 // all equal
		case 1:
			x = float32(rng.IntN(5)) // many equal
		case 2:
			x = []float32{-inf, nan, x, x, 0}[rng.IntN(5)]
		case 3:
			x *= 1e38
		case 4:
			x = float32(math.Float32frombits(rng.Uint32N(1<<20)) - math.Float32frombits(rng.Uint32N(1<<20))) // denormals
		case 5:
			x *= 1 << 32
		case 6:
			x = math.Float32frombits(rng.Uint32()) // any
		case 7:
			x = []float32{float32(math.Copysign(0, -1)), 0, x}[rng.IntN(3)]
		case 8:
			x = -inf
			if rng.IntN(n) < 3 {
				x = float32(rng.NormFloat64())
			}
		case 9:
			x = nan
		case 10:
			x = float32(i)/float32(n)*10 - 5 // in order
		}
		row[i] = x
	}
	switch rng.IntN(12) {
	case 0:
		row[rng.IntN(n)] = 1e10
	case 1:
		row[rng.IntN(n)] = 1 << 32
	case 2:
		row[rng.IntN(n)] = inf
	case 3:
		row[rng.IntN(n)] = math.MaxFloat32
	}
	return row
}

func randomParams(rng *rand.Rand, vocab int) (Params, []int32) {
	p := Params{Seed: rng.Uint64()}
	pick := func(values ...float64) float64 { return values[rng.IntN(len(values))] }
	p.Temperature = pick(0, 1, 1, 0.8, 0.3, 2, 100, 1e6, 1e-3, 1e-45, 1e-320, 0.8)
	p.TopK = int(pick(0, 0, 1, 2, 5, 40, 40, 100, 256, 300, 4000, math.MaxInt32))
	p.TopP = pick(0, 0, 0.95, 0.9, 0.5, 1, TopPZero, 1-1e-16, 1e-9, rng.Float64())
	p.MinP = pick(0, 0, 0.05, 0.5, 1, 1e-5, 1e-300)
	p.RepeatPenalty = pick(0, 0, 1, 1.1, 1.1, 2, 0.9, 1e-10, 1e6)
	if rng.IntN(4) == 0 {
		p.Bias = map[int32]float32{}
		for range rng.IntN(20) {
			p.Bias[int32(rng.IntN(vocab+5))] = float32(pick(0, -1, -2, 1, 3, -100, 100, 1e10, math.Inf(-1), 1e38))
		}
		if rng.IntN(2) == 0 { // none that raises
			for id, add := range p.Bias {
				p.Bias[id] = -max(add, -add)
			}
		}
	}
	tokens := make([]int32, rng.IntN(100))
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab + 3))
		if rng.IntN(20) == 0 {
			tokens[i] = []int32{-1, math.MaxInt32, math.MinInt32}[rng.IntN(3)]
		}
	}
	return p, tokens
}

// compare chooses in every way that there is.
func compare(t *testing.T, c *Chooser, p Params, row []float32, tokens []int32) {
	t.Helper()
	before := slices.Clone(row)
	require.NoError(t, c.Reset(p))
	want, wantErr := reference(p, row, tokens)
	check := func(how string, got int32, err error) {
		t.Helper()
		if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: want %d and %v, got %d and %v\n%+v, %d logits, %v, tokens %v",
				how, want, wantErr, got, err, p, len(row), row[:min(len(row), 20)], tokens)
		}
	}
	got, err := c.Choose(row, tokens)
	check("Choose", got, err)
	for i, l := range row {
		if math.Float32bits(l) != math.Float32bits(before[i]) {
			t.Fatalf("logit %d was changed from %v to %v", i, before[i], l)
		}
	}

	ids, logits := sorted(row)
	k, ok := c.Keep(tokens)
	if !ok {
		_, err := c.ChooseTop(ids, logits, tokens)
		require.Error(t, err)
		return
	}
	k = min(k, len(ids))
	got, err = c.ChooseTop(ids[:k], logits[:k], tokens)
	check("ChooseTop", got, err)
	// What is more than enough changes nothing.
	k = min(k+7, len(ids))
	got, err = c.ChooseTop(append(ids[:k:k], -1), append(logits[:k:k], 1e30), tokens)
	check("ChooseTop of more", got, err)
}

// sorted returns the numbers of a row with their tokens, in order.
func sorted(row []float32) (ids []int32, logits []float32) {
	for id, l := range row {
		if l == l {
			ids = append(ids, int32(id))
		}
	}
	mostLikelyFirst(ids, row)
	for _, id := range ids {
		logits = append(logits, row[id])
	}
	return ids, logits
}

func TestChoicesAreThoseOfTheDefinition(t *testing.T) {
	n := 20000
	switch {
	case race:
		n = 300
	case testing.Short():
		n = 2000
	}
	rng, c := rand.New(rand.NewPCG(1, 2)), new(Chooser)
	for range n {
		row := randomRow(rng)
		p, tokens := randomParams(rng, len(row))
		compare(t, c, p, row, tokens)
	}
}

func TestLongRowsAgainstTheDefinition(t *testing.T) {
	skipLongRows(t)
	rng, c := rand.New(rand.NewPCG(3, 4)), new(Chooser)
	for _, spread := range []float64{0, 0.001, 0.5, 1, 2, 4, 10, 1e10} {
		row := make([]float32, 128000)
		for i := range row {
			row[i] = float32(rng.NormFloat64() * spread)
		}
		times := 12
		if testing.Short() {
			times = 1
		}
		for range times {
			p, tokens := randomParams(rng, len(row))
			compare(t, c, p, row, tokens)
			p.TopK, p.TopP, p.MinP = 0, 0.95, 0
			compare(t, c, p, row, tokens)
		}
	}
}

// Rows of which the sample gives a wrong idea.
func TestMisleadingSamples(t *testing.T) {
	skipLongRows(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{few + 1, 10000, 50000} {
		for _, offset := range []float32{-40, -3, -0.5, 0.5, 3, 40} {
			row := make([]float32, n)
			for i := range row {
				row[i] = offset + float32(rng.NormFloat64())/10
			}
			const length = 16
			stride := (n - length) / (sampled/length - 1)
			for i := range sampled / length {
				for j := range length {
					row[i*stride+j] -= offset
				}
			}
			times := 40
			if testing.Short() {
				times = 10
			}
			for i := range times {
				p := Params{Temperature: 1.3, TopP: float64(i%10) / 10, TopK: i % 4 * n / 4, Seed: rng.Uint64()}
				compare(t, new(Chooser), p, row, make([]int32, i))
			}
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, uint64(1), uint16(3))
	f.Add([]byte("\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x80\xff\x00\x00\xc0\x7f\xf9\x02\x15\x50"), uint64(2), uint16(700))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, repeat uint16) {
		if len(data) < 4 {
			return
		}
		row := make([]float32, len(data)/4+int(repeat)%20000)
		for i := range row {
			at := i % (len(data) / 4) * 4
			row[i] = math.Float32frombits(uint32(data[at]) | uint32(data[at+1])<<8 | uint32(data[at+2])<<16 | uint32(data[at+3])<<24)
		}
		p, tokens := randomParams(rand.New(rand.NewPCG(seed, 5)), len(row))
		compare(t, new(Chooser), p, row, tokens)
	})
}
