package generate_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// wish is a request of the soak test, with its result when it ran alone.
type wish struct {
	generate.Request
	alone []generate.Token
}

func wishes(t *testing.T, n int, e *generate.Engine) []wish {
	rng := rand.New(rand.NewPCG(7, 7))
	var all []wish
	for i := range n {
		tokens := []int32{1}
		for range rng.IntN(90) {
			tokens = append(tokens, int32(3+rng.IntN(500)))
		}
		if i%3 == 0 { // many begin alike
			tokens = append(slices.Repeat([]int32{1, 403, 407, 261}, 9), tokens...)
		}
		tokens = tokens[:min(len(tokens), 110)]
		w := wish{Request: generate.Request{
			Tokens:    tokens,
			MaxTokens: 1 + rng.IntN(60),
			IgnoreEnd: true,
			LogProbs:  true,
			Priority:  rng.IntN(2),
			Sampling:  generate.Sampling{Temperature: float64(rng.IntN(2)), TopK: 50, RepeatPenalty: 1.1, Seed: rng.Uint64()},
		}}
		for tok, err := range e.Stream(t.Context(), w.Request) {
			require.NoError(t, err)
			w.alone = append(w.alone, tok)
		}
		all = append(all, w)
	}
	return all
}

// same says whether two steps are the same to the bit; when they were made is
// not part of it.
func same(a, b generate.Token) bool {
	return a.ID == b.ID && a.Text == b.Text && a.Finish == b.Finish && math.Float64bits(a.LogProb) == math.Float64bits(b.LogProb)
}

// Requests of mixed length arrive at random over three stages, a third is
// cancelled at random points, and pages are so scarce that requests must yield.
// Whatever survives is what it would have been alone, to the bit of its
// log-probabilities, and nothing is lost. LEAT_SOAK sets how long it goes on.
func TestSoak(t *testing.T) {
	long, _ := time.ParseDuration(os.Getenv("LEAT_SOAK"))
	const own = "cpu/3"
	list, alone := stagetest.Devices(t, own), "cpu"
	if list != own {
		alone = list // where devices are of several kinds, it matters which of them has a layer
	}
	one := tale(t, on(alone), generate.WithMaxSeqs(1))
	n := 200
	if list != own {
		n = 30 // emulated devices are slow
	}
	all := wishes(t, n, one)
	page := tale(t, on(list)).Plan()
	var bytes int64
	for _, s := range page.Stages {
		bytes += s.State / int64(page.Pages)
	}
	e := tale(t, on(list), pipeline.WithMaxBatch(48), generate.WithMaxSeqs(24), generate.WithKVMemory(9*bytes))
	require.Equal(t, 9, e.Plan().Pages)
	if alone == list {
		for i, s := range e.Plan().Stages {
			require.Equal(t, one.Plan().Stages[i].Layers, s.Layers)
		}
	}

	var done, cancelled atomic.Int64
	for began := time.Now(); ; {
		var wait sync.WaitGroup
		rng := rand.New(rand.NewPCG(uint64(done.Load()), 1))
		for i, w := range all {
			stop := -1
			if rng.IntN(3) == 0 {
				stop = rng.IntN(len(w.alone))
			}
			before := rng.IntN(40)
			wait.Go(func() {
				for range before { // arrive at some time
					<-time.After(time.Duration(before) * 20 * time.Microsecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := 0
				for tok, err := range e.Stream(ctx, w.Request) {
					if n == stop {
						cancel()
						cancelled.Add(1)
						return
					}
					if !assert.NoError(t, err) || !assert.True(t, same(w.alone[n], tok), "request %d, step %d: %+v, alone %+v", i, n, tok, w.alone[n]) {
						return
					}
					n++
				}
				assert.Equal(t, len(w.alone), n)
				done.Add(1)
			})
		}
		wait.Wait()
		if time.Since(began) >= long || t.Failed() {
			break
		}
	}
	counts := e.Stats()
	for counts.Running+counts.Waiting > 0 { // the last to be cancelled are on their way out
		runtime.Gosched()
		counts = e.Stats()
	}
	t.Logf("%d done, %d cancelled, %d yields, %d tokens not computed again", done.Load(), cancelled.Load(), counts.Preempted, counts.ReusedTokens)
	assert.Positive(t, counts.Preempted)
	assert.Positive(t, counts.ReusedTokens)
	assert.Equal(t, 9, counts.FreePages)
}
