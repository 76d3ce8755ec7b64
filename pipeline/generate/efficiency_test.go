package generate_test

import (
	"math"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// mixes are parts of t(n) = a + b·n, from none of a to none of b.
var mixes = []struct {
	name          string
	fixed, perRow time.Duration
}{
	{"a=0", 0, 100 * time.Microsecond},
	{"a=8b", 800 * time.Microsecond, 100 * time.Microsecond},
	{"a=32b", 3200 * time.Microsecond, 100 * time.Microsecond},
	{"a=128b", 12800 * time.Microsecond, 100 * time.Microsecond},
	{"b=0", 10 * time.Millisecond, 0},
}

// shapes are ways in which one stage may differ from the others.
var shapes = []struct {
	name     string
	slower   float64
	replicas int
}{
	{"equal", 1, 1},
	{"1.5×", 1.5, 1},
	{"1.5×, twice", 1.5, 2},
}

// How near the scheduler comes to perfect schedules of 64 requests on simulated
// stages. LEAT_TABLE=all prints the whole table, which takes minutes.
//
// "in turn" is the perfect schedule of those that don't know how long a request
// goes on and treat all alike: this is what a scheduler can reach. "foreseen" is
// less than any schedule needs, be it one that knows every length beforehand, has
// the longest go first, and lets the others wait.
func TestEfficiency(t *testing.T) {
	lengths, stages, some := []string{"log"}, []int{8}, []string{"a=0", "a=32b", "b=0"}
	if os.Getenv("LEAT_TABLE") == "all" {
		lengths, stages, some = []string{"uniform", "log"}, []int{1, 2, 4, 8, 16}, nil
	}
	t.Log("lengths  stages  t(n)    one stage     took      in turn          foreseen         rows a batch  between tokens: median, 99 of 100")
	for _, spread := range lengths {
		for _, n := range stages {
			for _, mix := range mixes {
				for _, shape := range shapes {
					if n == 1 && shape.slower > 1 || some != nil && !slices.Contains(some, mix.name) {
						continue
					}
					l := equal(n, mix.fixed, mix.perRow, shape.slower)
					l[n/2].replicas = shape.replicas
					all := jobs(64, uniform(16, 4096), uniform(16, 512))
					if spread == "log" {
						all = jobs(64, long(16, 4096), long(16, 512))
					}
					took, rows := efficiency(t, l, all)
					inTurn, foreseen := l.inTurn(all, pipeline.DefaultMaxBatch), l.foreseen(all, pipeline.DefaultMaxBatch)
					var gaps []time.Duration
					for _, j := range all {
						gaps = append(gaps, j.gaps...)
					}
					slices.Sort(gaps)
					t.Logf("%-8s %6d  %-7s %-11s %8.3fs  %7.3fs %5.1f%%  %7.3fs %5.1f%%  %12.1f  %6.1f ms %6.1f ms", spread, n, mix.name, shape.name,
						took, inTurn, 100*inTurn/took, foreseen, 100*foreseen/took, rows, 1e3*gaps[len(gaps)/2].Seconds(), 1e3*gaps[len(gaps)*99/100].Seconds())
					assert.GreaterOrEqual(t, took, foreseen*(1-1e-9), "%s, %d stages, %s, %s: no schedule is that good", spread, n, mix.name, shape.name)
					if n == 8 {
						goal := 0.95
						if shape.replicas > 1 {
							goal = 0.94 // the requests of one route may end before those of the other
						}
						assert.GreaterOrEqual(t, inTurn/took, goal, "%s, %s, %s", spread, mix.name, shape.name)
					}
				}
			}
		}
	}
}

// efficiency returns how long all jobs take, in seconds of simulated time, and how
// many rows a batch had.
func efficiency(t *testing.T, l line, all []*job) (took, rows float64) {
	synctest.Test(t, func(t *testing.T) {
		e := simulate(t, l, nil, generate.WithContext(4096+512))
		took = run(t, e, len(l), all).Seconds()
		s := e.Stats().Stages[0]
		rows = float64(s.Rows) / float64(s.Batches)
		require.NoError(t, e.Close())
	})
	return took, rows
}

// foreseen is the least time T, in seconds, that none of the following rules out,
// for batches of up to maxRows rows.
//
// A request's tokens come one after the other, each through all stages. With A and
// B the sums of the stages' a and b, a batch of m rows takes A + B·m. So one of D
// tokens after its prompt is done at T only if its rows are in batches of, on
// average, at most M = ((T − prompt)/D − A)/B rows.
//
// A row in a batch of m costs a stage a/m + b. That is convex in m, so those D rows
// cost it at least D·(a/M + b). Rows of prompts may go in full batches.
//
// A stage with r replicas does at most r·T less the times in which it can't have
// anything: until the first row has come through the stages before it, and while
// the last goes through those after it.
func (l line) foreseen(all []*job, maxRows int) float64 {
	full := float64(maxRows)
	A, B := l.through(0), l.through(1)-l.through(0)
	fits := func(T float64) bool {
		for i, s := range l {
			a, b := s.fixed.Seconds(), s.perRow.Seconds()
			work := 0.0
			for _, j := range all {
				work += float64(len(j.prompt)) * (a/full + b)
				D := float64(j.tokens - 1)
				if D == 0 {
					continue
				}
				M := full
				if left := (T-l.prompt(len(j.prompt), maxRows))/D - A; left < B*full {
					M = left / B // ±Inf, or NaN, where B is 0
				}
				if M *= 1 + 1e-12; !(M >= 1) {
					return false
				}
				work += D * (a/M + b)
			}
			if work > float64(s.replicas)*(T-(l.through(1)-l.at(i, 1))) {
				return false
			}
		}
		return true
	}
	low, high := 0.0, 1.0
	for !fits(high) {
		low, high = high, 2*high
	}
	for high-low > 1e-9*high {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// inTurn is how long all jobs take in seconds, in rounds: in each every request
// that decodes gets a token, and what room there is beside is for prompts in the
// order in which they came. It is the best for any size of batch.
func (l line) inTurn(all []*job, maxRows int) float64 {
	least := math.Inf(1)
	for m := 16; m <= maxRows; m *= 2 {
		least = min(least, l.inRounds(all, float64(m)))
	}
	return least
}

// inRounds is the same for batches of m rows while there are prompts.
func (l line) inRounds(all []*job, m float64) (took float64) {
	// While a batch goes through all stages, as many others follow it as keep the
	// slowest busy.
	most := m * l.through(m) / l.apart(m)
	var until []int // the rounds in which requests end that decode
	left := 0.0     // of the prompt that is the next to be done
	for r, next := 0, 0; ; r++ {
		until = slices.DeleteFunc(until, func(end int) bool { return end <= r })
		decoding := len(until)
		if decoding == 0 && next == len(all) {
			return took
		}
		room := most - float64(decoding)
		for ; next < len(all); next++ {
			if left == 0 {
				left = float64(len(all[next].prompt))
			}
			n := min(room, left)
			if left, room = left-n, room-n; left > 0 {
				break
			}
			until = append(until, r+all[next].tokens)
		}
		switch rows := most - room; {
		case rows > float64(decoding):
			took += max(l.through(m)*rows/most, l.round(float64(decoding)))
		default:
			took += l.round(rows)
		}
	}
}

// round is how long it takes for n rows that decode to go through all stages, in
// the best number of batches.
func (l line) round(n float64) float64 {
	if n == 0 {
		return 0
	}
	least := math.Inf(1)
	for g := 1.0; g <= n; g++ {
		least = min(least, max(l.through(n/g), g*l.apart(n/g)))
	}
	return least
}

// prompt is the least time, in seconds, until a prompt of n rows has gone through
// all stages: in the best number of chunks.
func (l line) prompt(n, maxRows int) float64 {
	least := math.Inf(1)
	for chunks := (n + maxRows - 1) / maxRows; chunks <= n; chunks++ {
		rows := float64(n) / float64(chunks)
		least = min(least, l.through(rows)+float64(chunks-1)*l.apart(rows))
	}
	return least
}
