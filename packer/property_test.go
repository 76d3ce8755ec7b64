package packer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachCut calls visit with every placement of the entries, budgets or not: the
// specification, by trying everything.
func eachCut(entries, devices int, visit func([]Run)) {
	var walk func(device, from int, runs []Run)
	walk = func(device, from int, runs []Run) {
		if from == entries {
			visit(runs)
			return
		}
		if device == devices {
			return
		}
		walk(device+1, from, runs)
		for to := from + 1; to <= entries; to++ {
			walk(device+1, to, append(runs[:len(runs):len(runs)], Run{device, from, to}))
		}
	}
	walk(0, 0, nil)
}

// measure adds up a cut without the package's own sums: whether it is within the
// budgets, its slowest run, and its time in all.
func measure(entries []Entry, devices []Device, runs []Run) (fits bool, slowest, total float64) {
	fits = true
	for _, r := range runs {
		d := devices[r.Device]
		bytes, shared := d.Overhead, map[string]int64{}
		var seconds float64
		if r.From > 0 {
			seconds = d.Link * float64(entries[r.From-1].OutBytes)
		}
		for _, e := range entries[r.From:r.To] {
			c := e.Costs[r.Device]
			seconds += c.Fixed + c.PerRow
			bytes += c.State
			if c.Shared == "" {
				bytes += c.Weights
			} else {
				shared[c.Shared] = max(shared[c.Shared], c.Weights)
			}
		}
		for _, b := range shared {
			bytes += b
		}
		fits = fits && d.Budget != 0 && (d.Budget < 0 || bytes <= d.Budget)
		slowest = max(slowest, seconds)
		total += seconds
	}
	return fits, slowest, total
}

// instance makes a small problem. Its numbers are small, so that ties and exact
// fits are common.
func instance(r *rand.Rand) ([]Entry, []Device) {
	devices := make([]Device, 1+r.IntN(4))
	for i := range devices {
		devices[i] = Device{
			Name:     fmt.Sprintf("device %d", i),
			Budget:   int64(r.IntN(25)) - 1,
			Overhead: int64(r.IntN(4)),
			Link:     float64(r.IntN(2)) / 4,
		}
	}
	alike := r.IntN(2) == 0
	entries := make([]Entry, r.IntN(7))
	for i := range entries {
		entries[i].OutBytes = int64(r.IntN(4))
		for range devices {
			c := Cost{
				Weights: int64(r.IntN(8)),
				State:   int64(r.IntN(3)),
				Shared:  [...]string{"", "", "", "table", "norm"}[r.IntN(5)],
				Fixed:   float64(r.IntN(4)) / 2,
				PerRow:  float64(r.IntN(4)),
			}
			if alike && len(entries[i].Costs) > 0 {
				c = entries[i].Costs[0]
			}
			entries[i].Costs = append(entries[i].Costs, c)
		}
	}
	return entries, devices
}

func TestAgainstEveryCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fitting := 0
	const instances = 5000
	for n := range instances {
		entries, devices := instance(r)
		where := fmt.Sprintf("instance %d: %+v on %+v", n, entries, devices)

		possible := false
		least := math.Inf(1)
		eachCut(len(entries), len(devices), func(runs []Run) {
			if fits, slowest, _ := measure(entries, devices, runs); fits {
				possible = true
				least = min(least, slowest)
			}
		})
		first, firstErr := FirstFit(entries, devices)
		balanced, balancedErr := Balanced(entries, devices)
		if !possible {
			require.ErrorIs(t, firstErr, ErrNoFit, where)
			require.ErrorIs(t, balancedErr, ErrNoFit, where)
			continue
		}
		fitting++
		require.NoError(t, firstErr, where)
		require.NoError(t, balancedErr, where)
		require.NoError(t, Check(entries, devices, first), where)
		require.NoError(t, Check(entries, devices, balanced), where)

		fits, _, _ := measure(entries, devices, first)
		require.True(t, fits, where)
		requireGreedy(t, entries, devices, first, where)

		fits, slowest, total := measure(entries, devices, balanced)
		require.True(t, fits, where)
		require.Equal(t, least, slowest, where)
		eachCut(len(entries), len(devices), func(runs []Run) {
			fits, slowest, all := measure(entries, devices, runs)
			if !fits || slowest > least {
				return
			}
			require.LessOrEqual(t, len(balanced), len(runs), where)
			if len(runs) == len(balanced) {
				require.LessOrEqual(t, total, all, where)
				if all == total {
					require.LessOrEqual(t, squares(entries, devices, balanced), squares(entries, devices, runs), where)
				}
			}
		})
	}
	require.Greater(t, fitting, instances/4, "most instances are worth trying")
	require.Less(t, fitting, instances*9/10)
}

// requireGreedy checks that each device of a first-fit took all that it could:
// of the entries not on the devices before it, not one more would have fitted.
func requireGreedy(t *testing.T, entries []Entry, devices []Device, runs []Run, where string) {
	next := 0
	for d := range devices {
		to := next
		if len(runs) > 0 && runs[0].Device == d {
			to, runs = runs[0].To, runs[1:]
		}
		if to < len(entries) {
			fits, _, _ := measure(entries, devices, []Run{{d, next, to + 1}})
			require.False(t, fits, where)
		}
		next = to
	}
}

func squares(entries []Entry, devices []Device, runs []Run) (sum float64) {
	for _, r := range runs {
		_, seconds := Load(entries, devices, r)
		sum += seconds * seconds
	}
	return sum
}

func TestCheckAgreesWithTheSpecification(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		entries, devices := instance(r)
		eachCut(len(entries), len(devices), func(runs []Run) {
			fits, _, _ := measure(entries, devices, runs)
			err := Check(entries, devices, runs)
			if fits {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrNoFit)
			}
		})
	}
}

func TestTimesThatDifferInTheLastDigits(t *testing.T) {
	// Ten times 0.1 adds up to something else than 1; that must neither panic
	// nor cost a device more.
	entries := timed(4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
	runs, err := Balanced(entries, budgets(unlimited, unlimited, unlimited, unlimited))
	require.NoError(t, err)
	require.Equal(t, []Run{{0, 0, 3}, {1, 3, 6}, {2, 6, 9}, {3, 9, 12}}, runs)
}

func TestHugeTimes(t *testing.T) {
	entries := timed(2, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64)
	runs, err := Balanced(entries, budgets(unlimited, unlimited))
	require.NoError(t, err)
	require.NoError(t, Check(entries, budgets(unlimited, unlimited), runs))
}

func BenchmarkBalanced(b *testing.B) {
	const entries, devices = 200, 16
	r := rand.New(rand.NewPCG(5, 6))
	e := make([]Entry, entries)
	for i := range e {
		e[i] = Entry{OutBytes: 4096, Costs: same(devices, Cost{Weights: 1000, Fixed: r.Float64(), PerRow: r.Float64()})}
	}
	e[0].Costs = same(devices, Cost{Weights: 1000, Shared: "table"})
	e[entries-1].Costs = same(devices, Cost{Weights: 1000, Shared: "table"})
	d := make([]Device, devices)
	for i := range d {
		d[i] = Device{Budget: unlimited, Link: 1e-9}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Balanced(e, d); err != nil {
			b.Fatal(err)
		}
	}
}
