package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// gaussian returns a row of logits of a spread. A language model's rows have one
// of some 2 to 4, and a few tokens far above: at a spread of 1 the draws are among
// tens of thousands.
func gaussian(n int, spread float64) []float32 {
	rng, row := rand.New(rand.NewPCG(61, 62)), make([]float32, n)
	for i := range row {
		row[i] = float32(rng.NormFloat64() * spread)
	}
	return row
}

var (
	usual   = Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}
	nucleus = Params{Temperature: 0.8, TopP: 0.95}
)

func BenchmarkChoose(b *testing.B) {
	for _, c := range []struct {
		name   string
		params Params
		vocab  int
		spread float64
	}{
		{"usual", usual, 512, 3},
		{"usual", usual, 512, 1},
		{"usual", usual, 32000, 3},
		{"usual", usual, 128000, 3},
		{"penalty", Params{Temperature: 0.8, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1}, 512, 3},
		{"topk", Params{Temperature: 0.8, TopK: 40}, 512, 3},
		{"topk", Params{Temperature: 0.8, TopK: 40}, 128000, 3},
		{"topp", nucleus, 512, 3},
		{"topp", nucleus, 128000, 1},
		{"topp", nucleus, 128000, 2},
		{"topp", nucleus, 128000, 4},
		{"temperature", Params{Temperature: 0.8}, 128000, 1},
		{"temperature", Params{Temperature: 0.8}, 128000, 4},
		{"greedy", Params{}, 128000, 3},
		{"greedy with penalty", Params{RepeatPenalty: 1.1}, 128000, 3},
	} {
		b.Run(fmt.Sprintf("%s/vocab=%d/spread=%v", c.name, c.vocab, c.spread), func(b *testing.B) {
			row, tokens := gaussian(c.vocab, c.spread), make([]int32, 1000)
			for i := range tokens {
				tokens[i] = int32(i % c.vocab)
			}
			chooser, err := NewChooser(c.params)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if _, err := chooser.Choose(row, tokens[:n%len(tokens)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkChooseTop(b *testing.B) {
	for _, c := range []struct {
		name   string
		params Params
		spread float64
	}{
		{"usual", usual, 3},
		{"usual, near each other", usual, 0.3},
		{"no min-p", Params{Temperature: 0.8, TopK: 40, TopP: 0.95}, 0.3},
		{"penalty", Params{Temperature: 0.8, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1}, 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			ids, logits := sorted(gaussian(32000, c.spread))
			chooser, err := NewChooser(c.params)
			if err != nil {
				b.Fatal(err)
			}
			tokens := make([]int32, 1000)
			for i := range tokens {
				tokens[i] = int32(i)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				before := tokens[:n%len(tokens)]
				k, _ := chooser.Keep(before)
				if _, err := chooser.ChooseTop(ids[:k], logits[:k], before); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLogProbs(b *testing.B) {
	row := gaussian(128000, 3)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			LogProb(row, 17)
		}
	})
	b.Run("top 20", func(b *testing.B) {
		var top []TokenLogProb
		b.ReportAllocs()
		for b.Loop() {
			top = NewLogProbs(row).Top(top[:0], 20)
		}
	})
}
