package generate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// With one request a token takes as long as all stages together: nothing waits for
// rows that don't come.
func TestARequestAloneWaitsForNothing(t *testing.T) {
	for _, stages := range []int{1, 2, 8} {
		for _, slower := range []float64{1, 1.5} {
			l := equal(stages, time.Millisecond, 100*time.Microsecond, slower)
			synctest.Test(t, func(t *testing.T) {
				e := simulate(t, l, nil, generate.WithContext(2048))
				all := jobs(2, uniform(1000, 1000), uniform(100, 100))
				for i, j := range all { // one after the other
					run(t, e, stages, all[i:i+1])
					slices.Sort(j.gaps)
					most := j.gaps[len(j.gaps)-1].Seconds()
					t.Logf("%d stages, one %v times as slow, request %d: a token takes %.2f ms, the stages together %.2f ms; the first of a prompt of %d %.1f ms, at best %.1f ms",
						stages, slower, i, 1e3*most, 1e3*l.through(1), len(j.prompt), 1e3*j.first.Sub(j.arrived).Seconds(), 1e3*l.prompt(len(j.prompt), pipeline.DefaultMaxBatch))
					assert.LessOrEqual(t, most, 1.03*l.through(1))
				}
				require.NoError(t, e.Close())
			})
		}
	}
}

// The first tokens of short prompts come soon, however long a prompt is before
// them, and that one isn't kept waiting by them either.
func TestFirstTokensUnderLoad(t *testing.T) {
	const stages, length, maxBatch = 4, 100_000, pipeline.DefaultMaxBatch
	l := equal(stages, 3200*time.Microsecond, 100*time.Microsecond, 1)
	alone := l.prompt(length, maxBatch)
	rng := rand.New(rand.NewPCG(1, 9))
	all := []*job{{prompt: text(rng, length), tokens: 20}}
	for i := range 60 {
		all = append(all, &job{prompt: text(rng, 16+rng.IntN(240)), tokens: 30, after: time.Duration(i) * 200 * time.Millisecond})
	}
	synctest.Test(t, func(t *testing.T) {
		e := simulate(t, l, nil, generate.WithContext(length+100), generate.WithMaxSeqs(64))
		run(t, e, stages, all)
		require.NoError(t, e.Close())
	})
	var first, gaps []time.Duration
	for _, j := range all[1:] {
		first = append(first, j.first.Sub(j.arrived))
		gaps = append(gaps, j.gaps...)
	}
	slices.Sort(first)
	slices.Sort(gaps)
	long := all[0].first.Sub(all[0].arrived)
	// A round is a full batch on its way through all stages. A prompt waits for the
	// batches in flight, and then has half of each.
	round := time.Duration(l.through(maxBatch) * float64(time.Second))
	t.Logf("first tokens of short prompts: median %v, longest %v; between tokens: median %v, longest %v; a round takes %v; the first of %d after %v, alone at best %.3fs",
		first[len(first)/2], first[len(first)-1], gaps[len(gaps)/2], gaps[len(gaps)-1], round, length, long, alone)
	assert.LessOrEqual(t, first[len(first)-1], 4*round)
	assert.LessOrEqual(t, gaps[len(gaps)-1], 2*round)
	assert.LessOrEqual(t, long.Seconds(), 2.5*alone, "half of every batch is its")
}

// What is learned of the stages does about as well as the best of what one could
// have asked for.
func TestLearnedAgainstFixed(t *testing.T) {
	for _, c := range mixes {
		for _, n := range []int{1, 8, 32} {
			l := equal(4, c.fixed, c.perRow, 1.5)
			took := func(options ...generate.Option) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					e := simulate(t, l, nil, append(options, generate.WithContext(1024))...)
					took = run(t, e, len(l), jobs(n, long(16, 512), long(16, 128)))
					require.NoError(t, e.Close())
				})
				return took
			}
			learned := took()
			best, flags := time.Duration(0), ""
			for _, inFlight := range []int{1, 2, 3, 4, 6} {
				for _, maxBatch := range []int{16, 64, 512} {
					if d := took(pipeline.WithInFlight(inFlight), pipeline.WithMaxBatch(maxBatch)); best == 0 || d < best {
						best, flags = d, fmt.Sprintf("--inflight %d --max-batch %d", inFlight, maxBatch)
					}
				}
			}
			t.Logf("%-7s %2d requests: learned %v, best fixed %v (%s): %.1f%%", c.name, n, learned.Round(time.Millisecond), best.Round(time.Millisecond), flags, 100*float64(best)/float64(learned))
		}
	}
}
