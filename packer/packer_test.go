package packer

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// blocks are entries of these many bytes that cost the same on every device.
func blocks(devices int, bytes ...int64) []Entry {
	entries := make([]Entry, len(bytes))
	for i, n := range bytes {
		entries[i] = Entry{Name: fmt.Sprintf("block %d", i), Costs: same(devices, Cost{Weights: n})}
	}
	return entries
}

// timed are entries that take these many seconds on every device.
func timed(devices int, seconds ...float64) []Entry {
	entries := make([]Entry, len(seconds))
	for i, s := range seconds {
		entries[i] = Entry{Costs: same(devices, Cost{Weights: 1, Fixed: s})}
	}
	return entries
}

func same(devices int, c Cost) []Cost {
	costs := make([]Cost, devices)
	for i := range costs {
		costs[i] = c
	}
	return costs
}

// budgets are devices a, b, c, … that may hold these many bytes.
func budgets(bytes ...int64) []Device {
	devices := make([]Device, len(bytes))
	for i, n := range bytes {
		devices[i] = Device{Name: string(rune('a' + i)), Budget: n}
	}
	return devices
}

const unlimited = -1

// perEntry is a run's need of these many bytes for each of its entries.
func perEntry(bytes int64) func(from, to int) int64 {
	return func(from, to int) int64 { return bytes * int64(to-from) }
}

func TestFirstFit(t *testing.T) {
	tests := []struct {
		name    string
		entries []Entry
		devices []Device
		want    []Run
	}{
		{
			name:    "no entries take no device",
			entries: nil, devices: budgets(10),
			want: nil,
		}, {
			name:    "one device takes what fits it exactly",
			entries: blocks(1, 4, 3, 3), devices: budgets(10),
			want: []Run{{0, 0, 3}},
		}, {
			name:    "the first device is filled, the rest goes on",
			entries: blocks(2, 4, 4, 4), devices: budgets(8, 100),
			want: []Run{{0, 0, 2}, {1, 2, 3}},
		}, {
			name:    "one byte too many moves the entry on",
			entries: blocks(2, 4, 4, 4), devices: budgets(7, 100),
			want: []Run{{0, 0, 1}, {1, 1, 3}},
		}, {
			name:    "a small entry never goes back to a device that has room",
			entries: blocks(2, 4, 9, 1), devices: budgets(8, 100),
			want: []Run{{0, 0, 1}, {1, 1, 3}},
		}, {
			name:    "a device of budget 0 is passed over, even by an entry of no bytes",
			entries: blocks(3, 0, 1, 0), devices: budgets(0, 1, 0),
			want: []Run{{1, 0, 3}},
		}, {
			name:    "a device too small for the next entry is passed over",
			entries: blocks(3, 5, 5), devices: budgets(5, 4, 5),
			want: []Run{{0, 0, 1}, {2, 1, 2}},
		}, {
			name:    "what falls through to the last device stays there",
			entries: blocks(3, 9, 1, 1, 1), devices: budgets(3, 3, unlimited),
			want: []Run{{2, 0, 4}},
		}, {
			name:    "a negative budget is none",
			entries: blocks(1, math.MaxInt64), devices: budgets(unlimited),
			want: []Run{{0, 0, 1}},
		}, {
			name:    "overhead counts against the budget",
			entries: blocks(2, 4, 4),
			devices: []Device{{Budget: 8, Overhead: 1}, {Budget: 5, Overhead: 1}},
			want:    []Run{{0, 0, 1}, {1, 1, 2}},
		}, {
			name:    "overhead counts only where there is an entry",
			entries: blocks(2, 4),
			devices: []Device{{Budget: 8, Overhead: 9}, {Budget: 4}},
			want:    []Run{{1, 0, 1}},
		}, {
			name:    "state counts as weights do",
			entries: []Entry{{Costs: same(2, Cost{Weights: 2, State: 3})}, {Costs: same(2, Cost{Weights: 2, State: 3})}},
			devices: budgets(9, 5),
			want:    []Run{{0, 0, 1}, {1, 1, 2}},
		}, {
			name: "a device's own costs count, not another's",
			entries: []Entry{
				{Costs: []Cost{{Weights: 9}, {Weights: 1}}},
				{Costs: []Cost{{Weights: 1}, {Weights: 9}}},
			},
			devices: budgets(8, 10),
			want:    []Run{{1, 0, 2}},
		}, {
			name: "weights of one name count once a device",
			entries: []Entry{
				{Costs: same(1, Cost{Weights: 6, Shared: "table"})},
				{Costs: same(1, Cost{Weights: 2})},
				{Costs: same(1, Cost{Weights: 6, Shared: "table"})},
			},
			devices: budgets(8),
			want:    []Run{{0, 0, 3}},
		}, {
			name: "weights of one name count again on another device",
			entries: []Entry{
				{Costs: same(2, Cost{Weights: 6, Shared: "table"})},
				{Costs: same(2, Cost{Weights: 3})},
				{Costs: same(2, Cost{Weights: 6, Shared: "table"})},
			},
			devices: budgets(8, 9),
			want:    []Run{{0, 0, 1}, {1, 1, 3}},
		}, {
			name: "of one name, what one entry has beyond the other still counts",
			entries: []Entry{
				{Costs: same(2, Cost{Weights: 6, Shared: "table"})},
				{Costs: same(2, Cost{Weights: 7, Shared: "table", State: 1})},
			},
			devices: budgets(7, 8),
			want:    []Run{{0, 0, 1}, {1, 1, 2}},
		}, {
			name:    "what the run itself needs counts against the budget",
			entries: blocks(2, 4, 4, 4),
			devices: []Device{{Budget: 10, Run: perEntry(1)}, {Budget: 5, Run: perEntry(1)}},
			want:    []Run{{0, 0, 2}, {1, 2, 3}},
		}, {
			name:    "an entry stays where the run with it fits, though it wouldn't without what follows",
			entries: blocks(2, 1, 1, 1),
			devices: []Device{{Budget: 5, Run: func(from, to int) int64 { return []int64{0, 0, 9, 0}[to] }}, {Budget: unlimited}},
			want:    []Run{{0, 0, 1}, {1, 1, 3}}, // though 0 to 2 would have fitted on the first
		}, {
			name:    "a common memory counts the runs before",
			entries: blocks(3, 4, 4, 4),
			devices: func() []Device {
				host := &Memory{Name: "host", Budget: 9}
				return []Device{{Budget: 5, Memory: host}, {Budget: unlimited, Memory: host}, {Budget: unlimited}}
			}(),
			want: []Run{{0, 0, 1}, {1, 1, 2}, {2, 2, 3}},
		}, {
			name: "weights of one name lie once in a device's memory, at both of its places",
			entries: []Entry{
				{Costs: same(3, Cost{Weights: 6, Shared: "table"})},
				{Costs: same(3, Cost{Weights: 3})},
				{Costs: same(3, Cost{Weights: 6, Shared: "table", State: 1})},
			},
			devices: func() []Device {
				gpu := &Memory{Name: "gpu", Budget: 7}
				return []Device{{Name: "gpu", Budget: unlimited, Memory: gpu}, {Name: "cpu", Budget: 3}, {Name: "gpu", Budget: unlimited, Memory: gpu}}
			}(),
			want: []Run{{0, 0, 1}, {1, 1, 2}, {2, 2, 3}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			runs, err := FirstFit(test.entries, test.devices)
			require.NoError(t, err)
			require.Equal(t, test.want, runs)
			require.NoError(t, Check(test.entries, test.devices, runs))
		})
	}
}

func TestWhatHasNoRoom(t *testing.T) {
	host := &Memory{Name: "host", Budget: 10}
	gpu := &Memory{Name: "gpu", Budget: 12}
	head := Entry{Name: "head", Costs: same(3, Cost{Weights: 9, Shared: "table"})}
	tests := []struct {
		name    string
		entries []Entry
		devices []Device
		want    string
	}{
		{
			"the first entry", blocks(1, 23, 4), []Device{{Name: "cpu", Budget: 10, Overhead: 2, Run: perEntry(3)}},
			"device cpu: budget 10 bytes, its first entry block 0 needs 23 bytes beside 5 bytes of overhead: 18 bytes short, and 25 bytes with the entry after it",
		}, {
			"a later entry, on the last device", blocks(2, 4, 9, 4), budgets(5, 10),
			"device b: budget 10 bytes, block 2 needs 4 bytes beside 9 bytes of the entries before it: 3 bytes short",
		}, {
			"all that follows", blocks(1, 4, 9, 4, 5), []Device{{Budget: 5, Overhead: 1}},
			"device 0: budget 5 bytes, block 1 needs 9 bytes beside 4 bytes of the entries before it and 1 bytes of overhead: 9 bytes short, and 18 bytes with the 2 entries after it",
		}, {
			"not the device that takes nothing", blocks(2, 4), budgets(3, 0),
			"device a: budget 3 bytes, its first entry block 0 needs 4 bytes: 1 bytes short",
		}, {
			"no device takes anything", blocks(2, 4), budgets(0, 0),
			"device a: budget 0 bytes, its first entry block 0 needs 4 bytes: 4 bytes short",
		}, {
			"an entry of nothing on a device that takes nothing", []Entry{{Costs: same(1, Cost{})}}, budgets(0),
			"device a: budget 0 bytes, it takes nothing",
		}, {
			"a common memory", blocks(2, 6, 6), []Device{{Name: "a", Budget: 7, Memory: host}, {Name: "b", Budget: unlimited, Memory: host}},
			"device b in host: budget 10 bytes, of which others hold 6 bytes, its first entry block 1 needs 6 bytes: 2 bytes short",
		}, {
			"a common memory, of which the same weights are part",
			[]Entry{{Costs: same(3, Cost{Weights: 9, Shared: "table", State: 1})}, blocks(3, 8)[0], head, blocks(3, 5)[0]},
			[]Device{{Name: "gpu", Budget: unlimited, Memory: gpu}, {Name: "cpu", Budget: 8}, {Name: "gpu", Budget: unlimited, Memory: gpu}},
			"device gpu in gpu: budget 12 bytes, of which others hold 1 bytes, block 0 needs 5 bytes beside 9 bytes of the entries before it: 3 bytes short",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, pack := range []func([]Entry, []Device) ([]Run, error){FirstFit, Balanced} {
				_, err := pack(test.entries, test.devices)
				require.ErrorIs(t, err, ErrNoFit)
				require.EqualError(t, err, "the model doesn't fit: "+test.want)
			}
		})
	}
}

func TestNoFitErrorHasTheNumbers(t *testing.T) {
	_, err := FirstFit(blocks(3, 4, 9, 4, 4), budgets(5, 10, 0))
	var e *NoFitError
	require.ErrorAs(t, err, &e)
	require.Equal(t, &NoFitError{
		Spill: Spill{Device: "b", Entry: "block 2", Run: Run{1, 1, 3}, Need: 4, Held: 9, Budget: 10, Short: 3},
		Rest:  1, InAll: 7,
		Before: []Spill{{Device: "a", Entry: "block 1", Run: Run{0, 0, 2}, Need: 9, Held: 4, Budget: 5, Short: 8}},
	}, e)
	require.Equal(t, "device b: budget <10>, block 2 needs <4> beside <9> of the entries before it: <3> short, and <7> with the entry after it",
		e.Describe(func(n int64) string { return fmt.Sprintf("<%d>", n) }))

	huge := math.MaxInt64 - 1
	_, err = Balanced(blocks(3, math.MaxInt64, 0), budgets(int64(huge), int64(huge), 0))
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 1, e.Short)
}

func TestArgumentsAreChecked(t *testing.T) {
	one := budgets(10)
	cost := func(c Cost) []Entry { return []Entry{{Name: "block", Costs: []Cost{c}}} }
	tests := []struct {
		name    string
		entries []Entry
		devices []Device
		want    string
	}{
		{"no devices", blocks(0, 1), nil, "no device"},
		{"costs missing", blocks(1, 1), budgets(1, 1), "entry 0 (block 0) has costs for 1 devices, there are 2"},
		{"negative weights", cost(Cost{Weights: -1}), one, "entry 0 (block) on a: -1 bytes of weights"},
		{"negative state", cost(Cost{State: -1}), one, "-1 of state"},
		{"negative output", []Entry{{OutBytes: -1, Costs: []Cost{{}}}}, one, "entry 0: OutBytes is -1"},
		{"negative overhead", cost(Cost{}), []Device{{Name: "x", Overhead: -1}}, "x: an overhead of -1"},
		{"negative time", cost(Cost{Fixed: -1}), one, "-1 seconds per batch"},
		{"NaN time", cost(Cost{PerRow: math.NaN()}), one, "NaN per row"},
		{"endless time", cost(Cost{PerRow: math.Inf(1)}), one, "+Inf per row"},
		{"NaN link", cost(Cost{}), []Device{{Link: math.NaN()}}, "device 0: an overhead of 0 bytes and a link of NaN"},
		{"weights and state overflow", cost(Cost{Weights: math.MaxInt64, State: 1}), one, "more than 2^63"},
		{"entries overflow", blocks(1, math.MaxInt64, 1), one, "entry 1 (block 1) on a"},
		{"a run's need is negative", blocks(1, 1), []Device{{Budget: 9, Run: perEntry(-7)}}, "device 0: the Run function returned a negative size for a run of the entries 0 to 0: -7 bytes"},
		{"a run's need is negative where there is no budget", blocks(1, 1), []Device{{Budget: -1, Run: perEntry(-7)}}, "-7 bytes"},
		{"overhead overflows", cost(Cost{Weights: math.MaxInt64}), []Device{{Overhead: 1, Budget: -1}}, "more than 2^63"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, pack := range []func([]Entry, []Device) ([]Run, error){
				FirstFit, Balanced,
				func(e []Entry, d []Device) ([]Run, error) { return nil, Check(e, d, []Run{{0, 0, len(e)}}) },
				func(e []Entry, d []Device) ([]Run, error) {
					_, err := Explain(e, d, []Run{{0, 0, len(e)}})
					return nil, err
				},
			} {
				_, err := pack(test.entries, test.devices)
				require.ErrorContains(t, err, test.want)
				require.NotErrorIs(t, err, ErrNoFit)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	entries, devices := blocks(3, 1, 1, 1, 1), budgets(2, 2, unlimited)
	for _, runs := range [][]Run{
		{{0, 0, 2}, {1, 2, 4}},
		{{2, 0, 4}},
		{{0, 0, 1}, {2, 1, 4}},
	} {
		require.NoError(t, Check(entries, devices, runs))
	}
	for _, test := range []struct {
		runs []Run
		want string
	}{
		{nil, "the runs end at entry 0 of 4"},
		{[]Run{{0, 0, 2}}, "the runs end at entry 2 of 4"},
		{[]Run{{3, 0, 4}}, "run 0 is on device 3 of 3"},
		{[]Run{{-1, 0, 4}}, "run 0 is on device -1 of 3"},
		{[]Run{{2, 0, 2}, {1, 2, 4}}, "run 1 is on device 1, after a run on device 2"},
		{[]Run{{1, 0, 2}, {1, 2, 4}}, "run 1 is on device 1, after a run on device 1"},
		{[]Run{{0, 0, 1}, {2, 2, 4}}, "run 1 begins at entry 2, not at entry 1"},
		{[]Run{{0, 0, 2}, {2, 1, 4}}, "run 1 begins at entry 1, not at entry 2"},
		{[]Run{{0, 0, 0}, {2, 0, 4}}, "run 0 is entries 0 to 0 of 4"},
		{[]Run{{2, 0, 5}}, "run 0 is entries 0 to 5 of 4"},
	} {
		err := Check(entries, devices, test.runs)
		require.ErrorContains(t, err, test.want)
		require.NotErrorIs(t, err, ErrNoFit)
	}
	err := Check(entries, devices, []Run{{0, 0, 3}, {2, 3, 4}})
	require.ErrorIs(t, err, ErrNoFit)
	require.EqualError(t, err, "the model doesn't fit: device a: budget 2 bytes, block 2 needs 1 bytes beside 2 bytes of the entries before it: 1 bytes short")

	// The first entry that is too much is named, with what is too much in all.
	err = Check(entries, devices, []Run{{1, 0, 4}})
	require.EqualError(t, err, "the model doesn't fit: device b: budget 2 bytes, block 2 needs 1 bytes beside 2 bytes of the entries before it: 1 bytes short, and 2 bytes with the entry after it")

	// A run may fit though a shorter one wouldn't.
	devices[0].Run = func(from, to int) int64 { return []int64{0, 9, 0}[to] }
	require.NoError(t, Check(entries, devices, []Run{{0, 0, 2}, {2, 2, 4}}))
	require.ErrorIs(t, Check(entries, devices, []Run{{0, 0, 1}, {2, 1, 4}}), ErrNoFit)

	host := &Memory{Name: "host", Budget: 3}
	devices = []Device{{Budget: 2, Memory: host}, {Budget: 2, Memory: host}, {Budget: unlimited}}
	require.NoError(t, Check(entries, devices, []Run{{0, 0, 2}, {1, 2, 3}, {2, 3, 4}}))
	require.ErrorContains(t, Check(entries, devices, []Run{{0, 0, 2}, {1, 2, 4}}), "in host: budget 3 bytes, of which others hold 2 bytes")
}

func TestLoad(t *testing.T) {
	entries := []Entry{
		{OutBytes: 8, Costs: []Cost{{Weights: 1, State: 10, Fixed: 1, PerRow: 0.5, Shared: "table"}}},
		{OutBytes: 4, Costs: []Cost{{Weights: 100, Fixed: 2}}},
		{OutBytes: 2, Costs: []Cost{{Weights: 3, Fixed: 4, Shared: "table"}}},
	}
	devices := []Device{{Budget: unlimited, Overhead: 1000, Link: 0.25}}
	bytes, seconds := Load(entries, devices, Run{0, 0, 3})
	require.EqualValues(t, 1000+3+10+100, bytes, "the larger of the shared weights counts")
	require.Equal(t, 7.5, seconds)
	bytes, seconds = Load(entries, devices, Run{0, 1, 3})
	require.EqualValues(t, 1000+100+3, bytes)
	require.Equal(t, 2+4+0.25*8, seconds, "with the eight bytes that it receives")

	devices[0].Run = func(from, to int) int64 { return int64(10000*from + 100000*to) }
	bytes, _ = Load(entries, devices, Run{0, 1, 3})
	require.EqualValues(t, 1000+100+3+310000, bytes)
	devices[0].Run = func(int, int) int64 { return math.MaxInt64 }
	bytes, _ = Load(entries, devices, Run{0, 1, 3})
	require.EqualValues(t, math.MaxInt64, bytes, "and doesn't overflow")
}
