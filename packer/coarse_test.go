package packer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// long is a model of many entries on some devices, of which those at the ends share
// their weights.
func long(r *rand.Rand, entries, devices int) ([]Entry, []Device) {
	e := make([]Entry, entries)
	for i := range e {
		e[i].OutBytes = 4
		for d := range devices {
			e[i].Costs = append(e[i].Costs, Cost{Weights: 900 + r.Int64N(200), State: 100, Fixed: (1 + r.Float64()) * float64(1+d%3)})
		}
	}
	for d := range devices {
		e[0].Costs[d].Shared, e[entries-1].Costs[d].Shared = "table", "table"
	}
	d := make([]Device, devices)
	for i := range d {
		d[i] = Device{Budget: unlimited, Overhead: 50, Run: func(from, to int) int64 { return 10 + int64(to-from) }}
	}
	return e, d
}

// Of more entries than a search looks at one by one, the cut is as good as that of a
// search that does, to a hair, and it fits.
func TestManyEntries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 6 {
		entries, devices := long(r, 300+r.IntN(300), 1+r.IntN(5))
		host := &Memory{Name: "host", Budget: unlimited}
		for i := range devices {
			devices[i].Memory = host
			if r.IntN(2) == 0 {
				devices[i].Budget = int64(len(entries)) * 1000 * int64(1+r.IntN(3)) / int64(len(devices))
			}
		}
		want, err := keeping(entries, devices, func(s *search) ([]Run, error) { return s.best(nil) })
		require.NoError(t, err)
		got, err := Balanced(entries, devices)
		if want == nil {
			require.ErrorIs(t, err, ErrNoFit)
			require.ErrorIs(t, Fits(entries, devices), ErrNoFit)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, Fits(entries, devices))
		require.NoError(t, Check(entries, devices, got))
		slowest := newSearch(entries, devices).slowest
		assert.InEpsilon(t, slowest(want), slowest(got), 0.01)
	}
}

// The time of a search is linear in the entries, with whatever limits.
func TestVeryManyEntries(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	entries, devices := long(r, 20_000, 3)
	began := time.Now()
	for _, limit := range []func(){
		func() {},
		func() { devices[0].Budget = 1_000_000 },
		func() {
			devices[1].Memory = &Memory{Budget: 5_000_000}
			devices[2].Memory = devices[1].Memory
			devices[2].Budget = 19_000_000
		},
		func() { devices[2].Memory.Budget = 25_000_000 },
	} {
		limit()
		first, _ := FirstFit(entries, devices)
		runs, err := Balanced(entries, devices)
		fits := Fits(entries, devices)
		if err != nil {
			assert.ErrorIs(t, err, ErrNoFit)
			assert.ErrorIs(t, fits, ErrNoFit)
			continue
		}
		require.NoError(t, fits)
		require.NoError(t, Check(entries, devices, runs))
		if first != nil {
			slowest := newSearch(entries, devices).slowest
			assert.LessOrEqual(t, slowest(runs), slowest(first))
		}
	}
	assert.Less(t, time.Since(began), 20*time.Second, "a fraction of that, but for the race detector")
}

// Groups of entries cost what their entries do in one run.
func TestGroups(t *testing.T) {
	entries := []Entry{
		{OutBytes: 1, Costs: []Cost{{Weights: 10, Own: 2, Shared: "a", State: 1, Fixed: 1, PerRow: 2}}},
		{OutBytes: 2, Costs: []Cost{{Weights: 20, State: 1, Fixed: 1}}},
		{OutBytes: 3, Costs: []Cost{{Weights: 13, Own: 3, Shared: "a", PerRow: 1}}},
		{OutBytes: 4, Costs: []Cost{{Weights: 7, Shared: "b"}}},
	}
	device := []Device{{Budget: unlimited, Run: func(from, to int) int64 { return int64(10*from + to) }, Also: []Replica{{Budget: unlimited, Run: func(from, to int) int64 { return int64(to) }}}}}
	groups, grouped := cuts{0, 3, 4}.groups(entries, device)
	assert.Equal(t, []Entry{
		{OutBytes: 3, Costs: []Cost{{Weights: 35, Own: 25, Shared: "a", State: 2, Fixed: 2, PerRow: 3}}},
		entries[3],
	}, groups)
	bytes, seconds := Load(entries, device, Run{0, 0, 3})
	grouped1, groupedSeconds := Load(groups, grouped, Run{0, 0, 1})
	assert.Equal(t, bytes, grouped1)
	assert.Equal(t, seconds, groupedSeconds)

	groups, _ = cuts{0, 2, 4}.groups(entries, device)
	assert.Equal(t, Cost{Weights: 30, Own: 22, Shared: "a", State: 2, Fixed: 2, PerRow: 2}, groups[0].Costs[0])
	assert.Equal(t, Cost{Weights: 20, PerRow: 1}, groups[1].Costs[0], "what can't be told apart is counted as the group's own")
}

func TestExcluded(t *testing.T) {
	entries := []Entry{
		{Name: "large", Costs: []Cost{{Weights: 100}, {Weights: 100}, {Weights: 100}}},
		{Name: "small", Costs: []Cost{{Weights: 10}, {Weights: 10}, {Weights: 10}}},
	}
	devices := []Device{{Name: "a", Budget: 12, Overhead: 5}, {Name: "b", Budget: 15, Overhead: 5}, {Name: "c"}}
	spill, err := Excluded(entries, devices, 0)
	require.NoError(t, err)
	assert.Equal(t, &Spill{Device: "a", Entry: "small", Run: Run{0, 1, 2}, Need: 10, Overhead: 5, Budget: 12, Short: 3}, spill)
	spill, err = Excluded(entries, devices, 1)
	assert.Nil(t, spill)
	require.NoError(t, err)
	spill, err = Excluded(entries, devices, 2)
	require.NoError(t, err)
	assert.Zero(t, spill.Budget)
	_, err = Excluded(entries, devices, 3)
	assert.ErrorContains(t, err, "there is no device 3: there are 3 devices")
	_, err = Excluded(entries, nil, 0)
	assert.Error(t, err)
}
