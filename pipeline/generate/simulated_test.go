package generate_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest/simulated"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/arch"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// vocab is that of the tokenizer that simulated models borrow.
const vocab = 512

// line is the stages of a simulated pipeline, of one layer each: a batch of n rows
// takes fixed + n·perRow on one of the replicas.
type line []struct {
	fixed, perRow time.Duration
	replicas      int
}

// equal is a line of n stages that take the same time, but for the one in the
// middle, which takes slower times as long.
func equal(n int, fixed, perRow time.Duration, slower float64) line {
	l := make(line, n)
	for i := range l {
		l[i].fixed, l[i].perRow, l[i].replicas = fixed, perRow, 1
	}
	m := &l[n/2]
	m.fixed = time.Duration(float64(m.fixed) * slower)
	m.perRow = time.Duration(float64(m.perRow) * slower)
	return l
}

// at is how many seconds stage i takes for n rows.
func (l line) at(i int, n float64) float64 {
	return l[i].fixed.Seconds() + n*l[i].perRow.Seconds()
}

// through is how many seconds a batch of n rows takes through all stages.
func (l line) through(n float64) (sum float64) {
	for i := range l {
		sum += l.at(i, n)
	}
	return sum
}

// apart is how many seconds after another a batch of n rows can follow at best.
func (l line) apart(n float64) (most float64) {
	for i, s := range l {
		most = max(most, l.at(i, n)/float64(s.replicas))
	}
	return most
}

// on has a pipeline stand on simulated devices, one for each replica.
func (l line) on() generate.Option {
	var places []string
	devices := 0
	for _, s := range l {
		var replicas []string
		for range s.replicas {
			replicas = append(replicas, simulated.Place(devices))
			devices++
		}
		places = append(places, strings.Join(replicas, "|"))
	}
	return pipeline.WithDevices(strings.Join(places, ","))
}

// imitate returns a model with a layer for each stage of l, which change, if it
// isn't nil, may change before. It writes what simulated.Continue says.
func imitate(t *testing.T, l line, change func([]*simulated.Layer)) *model.Model {
	t.Helper()
	layers := simulated.Model(len(l), vocab, func(i int) (time.Duration, time.Duration) { return l[i].fixed, l[i].perRow })
	if change != nil {
		change(layers)
	}
	m := parse(t)
	m.Model = &arch.Model{Name: "simulated", Vocab: vocab, Context: 1 << 20, Width: 1}
	for _, layer := range layers {
		m.Layers = append(m.Layers, layer)
	}
	return m
}

// simulate starts an engine with such a model.
func simulate(t *testing.T, l line, change func([]*simulated.Layer), options ...generate.Option) *generate.Engine {
	t.Helper()
	e, err := generate.New(t.Context(), imitate(t, l, change), append([]generate.Option{l.on()}, options...)...)
	require.NoError(t, err)
	require.Len(t, e.Plan().Stages, len(l))
	return e
}

// job is a request of a simulated run, and what became of it.
type job struct {
	prompt []int32
	tokens int
	after  time.Duration // it comes so long after the first

	gaps                 []time.Duration
	arrived, first, last time.Time
}

// jobs returns n requests, of which no two begin alike for as long as a page is.
// They come a nanosecond apart, so that their order is known.
func jobs(n int, prompt, tokens func(*rand.Rand) int) []*job {
	rng := rand.New(rand.NewPCG(4, 2))
	all := make([]*job, n)
	for i := range all {
		all[i] = &job{prompt: text(rng, prompt(rng)), tokens: tokens(rng), after: time.Duration(i)}
	}
	return all
}

func uniform(from, to int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return from + r.IntN(to-from+1) }
}

// long is for lengths of which as many are from n to 2n as from 2n to 4n.
func long(from, to int) func(*rand.Rand) int {
	return func(r *rand.Rand) int {
		return int(float64(from) * math.Pow(float64(to)/float64(from), r.Float64()))
	}
}

func text(rng *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = rng.Int32N(vocab)
	}
	return tokens
}

// run has an engine of so many stages do all jobs and returns how long they took
// together. What they write is checked.
func run(t *testing.T, e *generate.Engine, stages int, all []*job) time.Duration {
	began := time.Now()
	var wait sync.WaitGroup
	for _, j := range all {
		wait.Go(func() {
			<-time.After(j.after)
			j.arrived = time.Now()
			var got []int32
			for tok, err := range e.Stream(t.Context(), generate.Request{Tokens: j.prompt, MaxTokens: j.tokens, IgnoreEnd: true}) {
				if !assert.NoError(t, err) || tok.ID < 0 {
					break
				}
				if got = append(got, tok.ID); len(got) == 1 {
					j.first = tok.At
				}
				if len(got) > 1 {
					j.gaps = append(j.gaps, tok.At.Sub(j.last))
				}
				j.last = tok.At
			}
			assert.Equal(t, simulated.Continue(stages, vocab, j.prompt, j.tokens), got)
		})
	}
	wait.Wait()
	return time.Since(began)
}
