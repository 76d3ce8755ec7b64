package packer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// verdict is what a cut is, without the package's own sums.
type verdict struct {
	fits     bool
	slowest  float64
	runs     int
	bytes    int64
	squares  float64
	starts   []int // by device: how many entries stand on those before
	memories map[*Memory]int64
}

func judge(entries []Entry, devices []Device, runs []Run) verdict {
	v := verdict{fits: true, runs: len(runs), starts: make([]int, len(devices)), memories: map[*Memory]int64{}}
	for _, r := range runs {
		for d := r.Device + 1; d < len(devices); d++ {
			v.starts[d] = r.To
		}
	}
	type weights struct {
		memory         *Memory
		device, shared string
	}
	lie := map[weights]int64{}
	for _, r := range runs {
		d := devices[r.Device]
		var own int64
		shared := map[string]int64{}
		var seconds float64
		if r.From > 0 {
			seconds = d.Link * float64(entries[r.From-1].OutBytes)
		}
		for _, e := range entries[r.From:r.To] {
			c := e.Costs[r.Device]
			seconds += c.Fixed + c.PerRow
			own += c.State
			if c.Shared == "" {
				own += c.Weights
			} else {
				own += c.Own
				shared[c.Shared] = max(shared[c.Shared], c.Weights-c.Own)
			}
		}
		for i, replica := range append([]Replica{{d.Name, d.Budget, d.Overhead, d.Memory, d.Run}}, d.Also...) {
			bytes := own + replica.Overhead
			if replica.Run != nil {
				bytes += replica.Run(r.From, r.To)
			}
			v.memories[replica.Memory] += bytes
			for name, b := range shared {
				bytes += b
				w := weights{replica.Memory, replica.Name, name}
				if replica.Name == "" {
					w.device = fmt.Sprint("place ", r.Device, " replica ", i)
				}
				v.memories[replica.Memory] += max(0, b-lie[w])
				lie[w] = max(lie[w], b)
			}
			v.fits = v.fits && replica.Budget != 0 && (replica.Budget < 0 || bytes <= replica.Budget)
			v.bytes += bytes
		}
		v.slowest = max(v.slowest, seconds)
		v.squares += seconds * seconds
	}
	delete(v.memories, nil)
	for m, bytes := range v.memories {
		v.fits = v.fits && (m.Budget < 0 || bytes <= m.Budget)
	}
	return v
}

// worseThan orders cuts that fit as Balanced says. The instances' times are
// quarters, whose sums are exact.
func (v verdict) worseThan(o verdict) bool {
	switch {
	case v.slowest != o.slowest:
		return v.slowest > o.slowest
	case v.runs != o.runs:
		return v.runs > o.runs
	case v.bytes != o.bytes:
		return v.bytes > o.bytes
	case v.squares != o.squares:
		return v.squares > o.squares
	}
	for d := len(v.starts) - 1; d > 0; d-- {
		if v.starts[d] != o.starts[d] {
			return v.starts[d] < o.starts[d]
		}
	}
	return false
}

// instance makes a small problem. Its numbers are small, so that ties and exact
// fits are common. A plain one has no memories, and longer runs need no less.
func instance(r *rand.Rand, plain bool) ([]Entry, []Device) {
	devices := make([]Device, 1+r.IntN(5))
	entries := make([]Entry, r.IntN(8))
	memories := []*Memory{nil, {"first", int64(r.IntN(40)) - 1}, {"second", int64(r.IntN(30)) - 1}}
	one := r.IntN(4) == 0 // device at all places
	replicas := r.IntN(3) == 0
	for i := range devices {
		devices[i] = Device{
			Name:     [...]string{"", "x", "y", "z"}[r.IntN(4)],
			Budget:   int64(r.IntN(25)) - 1,
			Overhead: int64(r.IntN(4)),
			Link:     float64(r.IntN(2)) / 4,
			Memory:   memories[r.IntN(len(memories))],
		}
		switch r.IntN(3) {
		case 0:
			devices[i].Run = perEntry(int64(r.IntN(2)))
		case 1:
			need := make([]int64, 64)
			for i := range need {
				need[i] = int64(r.IntN(6))
			}
			devices[i].Run = func(from, to int) int64 { return need[from*8+to-1] }
		}
		if one {
			devices[i].Name, devices[i].Memory = "x", memories[1]
		}
		if plain {
			devices[i].Run = perEntry(int64(r.IntN(2)))
			devices[i].Memory = nil
		}
		for replicas && r.IntN(2) == 0 && len(devices[i].Also) < 2 {
			also := Replica{
				Name:     [...]string{"", "x", "y", devices[i].Name}[r.IntN(4)],
				Budget:   int64(r.IntN(30)) - 1,
				Overhead: int64(r.IntN(3)),
				Memory:   memories[r.IntN(len(memories))],
				Run:      [...]func(from, to int) int64{nil, devices[i].Run, perEntry(1)}[r.IntN(3)],
			}
			if one {
				also.Name, also.Memory = "x", memories[1]
			}
			if plain {
				also.Run, also.Memory = perEntry(int64(r.IntN(2))), nil
			}
			devices[i].Also = append(devices[i].Also, also)
		}
	}
	alike := r.IntN(2) == 0
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
			c.Own = min(c.Weights, max(0, int64(r.IntN(6))-3))
			if alike && len(entries[i].Costs) > 0 {
				c = entries[i].Costs[0]
			}
			entries[i].Costs = append(entries[i].Costs, c)
		}
	}
	return entries, devices
}

func TestAgainstEveryCut(t *testing.T) {
	for _, plain := range []bool{true, false} {
		t.Run(map[bool]string{true: "plain", false: "memories and any need"}[plain], func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			const instances = 6000
			fitting, onlyBalanced, binding, cuts, largest, replicated := 0, 0, 0, 0, 0, 0
			most := ""
			for n := range instances {
				entries, devices := instance(r, plain)
				where := fmt.Sprintf("instance %d: %+v on %+v", n, entries, devices)
				var best verdict
				var bestRuns []Run
				eachCut(len(entries), len(devices), func(runs []Run) {
					cuts++
					if v := judge(entries, devices, runs); v.fits && (!best.fits || best.worseThan(v)) {
						best, bestRuns = v, runs
					}
				})
				if size := len(entries) * len(devices); size > largest {
					largest, most = size, fmt.Sprintf("%d entries on %d devices", len(entries), len(devices))
				}

				first, err := FirstFit(entries, devices)
				byHand, fits := fillByHand(entries, devices)
				if fits {
					require.NoError(t, err, where)
					require.Equal(t, byHand, first, where)
					require.NoError(t, Check(entries, devices, first), where)
				} else {
					require.ErrorIs(t, err, ErrNoFit, where)
					require.False(t, plain && best.fits, where)
				}

				balanced, err := Balanced(entries, devices)
				if !best.fits {
					require.ErrorIs(t, err, ErrNoFit, where)
					continue
				}
				fitting++
				if slices.ContainsFunc(bestRuns, func(r Run) bool { return devices[r.Device].Also != nil }) {
					replicated++
				}
				if !fits {
					onlyBalanced++
				}
				if memoryBinds(t, entries, devices) {
					binding++
				}
				require.NoError(t, err, where)
				require.NoError(t, Check(entries, devices, balanced), where)
				require.Equal(t, bestRuns, balanced, where)
			}
			t.Logf("%d instances, %d of them fit, %d with replicas, a memory binds in %d, only Balanced finds a cut in %d; the largest %s; %d cuts tried",
				instances, fitting, replicated, binding, onlyBalanced, most, cuts)
			require.Greater(t, replicated, instances/50)
			require.Greater(t, fitting, instances/4, "most instances are worth trying")
			require.Less(t, fitting, instances*9/10)
		})
	}
}

// memoryBinds says whether the best cut without the memories breaks one.
func memoryBinds(t *testing.T, entries []Entry, devices []Device) bool {
	alone := slices.Clone(devices)
	for i := range alone {
		alone[i].Memory = nil
		alone[i].Also = slices.Clone(alone[i].Also)
		for r := range alone[i].Also {
			alone[i].Also[r].Memory = nil
		}
	}
	runs, err := Balanced(entries, alone)
	require.NoError(t, err)
	return !judge(entries, devices, runs).fits
}

// fillByHand is what FirstFit must do: each device takes entries for as long as
// the cut so far fits.
func fillByHand(entries []Entry, devices []Device) (runs []Run, fits bool) {
	from := 0
	for d := range devices {
		to := from
		for to < len(entries) && judge(entries, devices, append(runs[:len(runs):len(runs)], Run{d, from, to + 1})).fits {
			to++
		}
		if to > from {
			runs = append(runs, Run{d, from, to})
			from = to
		}
	}
	return runs, from == len(entries)
}

func TestCheckAndExplainAgainstEveryCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		entries, devices := instance(r, false)
		eachCut(len(entries), len(devices), func(runs []Run) {
			v := judge(entries, devices, runs)
			err := Check(entries, devices, runs)
			if v.fits {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrNoFit)
			}
			report, err := Explain(entries, devices, runs)
			require.NoError(t, err)
			requireTrue(t, entries, devices, runs, v, report)
		})
	}
}

// requireTrue checks a report against a verdict.
func requireTrue(t *testing.T, entries []Entry, devices []Device, runs []Run, v verdict, report Report) {
	var bytes int64
	next, done := 0, 0
	for d, use := range report.Devices {
		bytes += use.Bytes
		before := runs[:done:done]
		require.Equal(t, d, use.Run.Device)
		require.Equal(t, next, use.Run.From)
		if use.Run.To > use.Run.From {
			require.Equal(t, runs[done], use.Run)
			done++
		}
		next = use.Run.To
		if next == len(entries) {
			require.Nil(t, use.Spill)
			continue
		}
		// The verdict on the runs before may be that they don't fit themselves.
		longer := Run{d, use.Run.From, next + 1}
		others := judge(entries, devices, before)
		if !others.fits {
			continue
		}
		with := judge(entries, devices, append(before, longer))
		require.Equal(t, with.fits, use.Spill == nil)
		if s := use.Spill; s != nil {
			require.Equal(t, longer, s.Run)
			if s.Budget > 0 {
				require.Equal(t, s.Need+s.Held+s.Overhead+s.Others-s.Budget, s.Short)
			}
			if s.Memory != nil {
				require.Equal(t, with.memories[s.Memory]-s.Memory.Budget, s.Short)
			} else if s.Budget > 0 && devices[d].Also == nil {
				require.Equal(t, with.bytes-others.bytes-s.Budget, s.Short)
			}
			require.Positive(t, s.Short)
		}
	}
	require.Equal(t, v.bytes, bytes)
	for _, m := range report.Memories {
		require.Equal(t, v.memories[m.Memory], m.Bytes)
	}
	if len(runs) > 0 {
		require.Equal(t, v.slowest, report.Devices[report.Slowest].Seconds)
	}
}

// TestManyMemories has instances too large to try every cut, and more memories
// than the search is exact for.
func TestManyMemories(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const instances = 20
	fitting, onlyBalanced, better := 0, 0, 0
	for range instances {
		entries, devices := crowded(r, 40, 8, 3)
		first, err := FirstFit(entries, devices)
		balanced, balancedErr := Balanced(entries, devices)
		if err != nil {
			require.ErrorIs(t, err, ErrNoFit)
			if balancedErr == nil {
				require.True(t, judge(entries, devices, balanced).fits)
				onlyBalanced++
			} else {
				require.Equal(t, err, balancedErr)
			}
			continue
		}
		fitting++
		require.NoError(t, balancedErr)
		require.NoError(t, Check(entries, devices, balanced))
		v, w := judge(entries, devices, first), judge(entries, devices, balanced)
		require.True(t, w.fits)
		require.LessOrEqual(t, w.slowest, v.slowest*(1+noise))
		if w.slowest < v.slowest {
			better++
		}
	}
	t.Logf("%d instances of 40 entries on 8 devices with 3 memories: FirstFit finds a cut in %d, only Balanced in %d, a faster one in %d",
		instances, fitting, onlyBalanced, better)
	require.Positive(t, fitting)
	require.Positive(t, better)
}

// crowded makes a problem in which each device has one of a few memories, which
// are nearly full.
func crowded(r *rand.Rand, entries, devices, memories int) ([]Entry, []Device) {
	pools := make([]*Memory, memories)
	for i := range pools {
		pools[i] = &Memory{Name: fmt.Sprint("memory ", i), Budget: int64(float64(1000*entries/memories) * (0.9 + r.Float64()/3))}
	}
	d := make([]Device, devices)
	for i := range d {
		d[i] = Device{Name: fmt.Sprint("device ", i%memories), Budget: unlimited, Overhead: 100, Memory: pools[i%memories], Run: perEntry(10)}
	}
	e := make([]Entry, entries)
	for i := range e {
		weights, seconds := 500+r.Int64N(1000), 1+r.Float64()
		for k := range d {
			e[i].Costs = append(e[i].Costs, Cost{Weights: weights, PerRow: seconds * float64(1+k%memories)})
		}
	}
	for k := range d {
		e[0].Costs[k].Shared, e[entries-1].Costs[k].Shared = "table", "table"
	}
	return e, d
}

func TestTimesThatDifferInTheLastDigits(t *testing.T) {
	// Ten times 0.1 adds up to something else than 1; that must neither panic
	// nor cost a device more.
	entries := timed(4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
	runs, err := Balanced(entries, budgets(unlimited, unlimited, unlimited, unlimited))
	require.NoError(t, err)
	require.Equal(t, []Run{{0, 0, 3}, {1, 3, 6}, {2, 6, 9}, {3, 9, 12}}, runs)

	entries = timed(3, 0.1, 0.1, 0.1, 0.3)
	runs, err = Balanced(entries, budgets(unlimited, unlimited, unlimited))
	require.NoError(t, err)
	require.Equal(t, []Run{{0, 0, 3}, {1, 3, 4}}, runs)
}

func TestHugeTimes(t *testing.T) {
	entries := timed(2, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64)
	runs, err := Balanced(entries, budgets(unlimited, unlimited))
	require.NoError(t, err)
	require.NoError(t, Check(entries, budgets(unlimited, unlimited), runs))
}
