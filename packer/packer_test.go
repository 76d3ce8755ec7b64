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

func TestFirstFitSaysWhatHasNoRoom(t *testing.T) {
	_, err := FirstFit(blocks(2, 4, 9, 4), budgets(5, 10))
	require.ErrorIs(t, err, ErrNoFit)
	require.EqualError(t, err, "the model doesn't fit the devices' budgets: "+
		"entry 2 (block 2) is 3 bytes too large for b: it needs 4 there beside 9, overhead included, and the budget is 10")

	_, err = FirstFit(blocks(2, 4), budgets(3, 0))
	require.ErrorContains(t, err, "entry 0 (block 0) is 1 bytes too large for a:", "not for the device that takes nothing")

	_, err = FirstFit(blocks(2, 4), budgets(0, 0))
	require.ErrorIs(t, err, ErrNoFit)
	require.ErrorContains(t, err, "entry 0 (block 0) is 4 bytes too large for a:")
	require.ErrorContains(t, err, "the budget is 0")
}

func TestBalanced(t *testing.T) {
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
			name:    "equal devices get equal shares",
			entries: timed(3, 1, 1, 1, 1, 1, 1), devices: budgets(unlimited, unlimited, unlimited),
			want: []Run{{0, 0, 2}, {1, 2, 4}, {2, 4, 6}},
		}, {
			name:    "the slowest run is what counts",
			entries: timed(2, 5, 1, 1, 1, 1), devices: budgets(unlimited, unlimited),
			want: []Run{{0, 0, 1}, {1, 1, 5}},
		}, {
			name: "a faster device gets more",
			entries: []Entry{
				{Costs: []Cost{{PerRow: 1}, {PerRow: 3}}},
				{Costs: []Cost{{PerRow: 1}, {PerRow: 3}}},
				{Costs: []Cost{{PerRow: 1}, {PerRow: 3}}},
				{Costs: []Cost{{PerRow: 1}, {PerRow: 3}}},
			},
			devices: budgets(unlimited, unlimited),
			want:    []Run{{0, 0, 3}, {1, 3, 4}},
		}, {
			name:    "budgets come before times",
			entries: timed(2, 1, 1, 1, 1), devices: budgets(1, unlimited),
			want: []Run{{0, 0, 1}, {1, 1, 4}},
		}, {
			name:    "a device that would not help is left out",
			entries: timed(3, 5, 1), devices: budgets(unlimited, unlimited, unlimited),
			want: []Run{{0, 0, 1}, {1, 1, 2}},
		}, {
			name:    "a device of budget 0 is left out",
			entries: timed(3, 1, 1), devices: budgets(unlimited, 0, unlimited),
			want: []Run{{0, 0, 1}, {2, 1, 2}},
		}, {
			name:    "of equal cuts, the one with fewer devices",
			entries: timed(3, 4, 1, 3), devices: budgets(unlimited, unlimited, unlimited),
			want: []Run{{0, 0, 1}, {1, 1, 3}}, // 4 4, not 4 1 3
		}, {
			name:    "even where the faster start would take more devices",
			entries: timed(3, 1, 1, 9), devices: budgets(unlimited, unlimited, unlimited),
			want: []Run{{0, 0, 2}, {1, 2, 3}}, // 2 9, not 1 1 9
		}, {
			name:    "of equal cuts, the more even one",
			entries: timed(3, 1, 1, 1, 1, 4), devices: budgets(3, 3, 1),
			want: []Run{{0, 0, 2}, {1, 2, 4}, {2, 4, 5}}, // 2 2 4, not 1 3 4 or 3 1 4
		}, {
			name: "of equal cuts, the one that takes less in all",
			entries: []Entry{
				{Costs: []Cost{{Weights: 1, Fixed: 4}, {Weights: 1, Fixed: 4}}},
				{Costs: []Cost{{Weights: 1, Fixed: 1}, {Weights: 1, Fixed: 1}}},
				{Costs: []Cost{{Weights: 1, Fixed: 1}, {Weights: 1, Fixed: 3}}},
				{Costs: []Cost{{Weights: 1, Fixed: 9}, {Weights: 1, Fixed: 6}}},
			},
			devices: budgets(unlimited, unlimited),
			want:    []Run{{0, 0, 3}, {1, 3, 4}},
		}, {
			name: "what a device receives takes its time",
			entries: []Entry{
				{OutBytes: 100, Costs: same(2, Cost{Fixed: 2})},
				{OutBytes: 1, Costs: same(2, Cost{Fixed: 2})},
				{OutBytes: 1, Costs: same(2, Cost{Fixed: 1})},
			},
			devices: []Device{{Budget: unlimited}, {Budget: unlimited, Link: 0.1}},
			want:    []Run{{0, 0, 2}, {1, 2, 3}}, // 4 and 1.1, not 2 and 13
		}, {
			name:    "the model's input takes no link's time",
			entries: timed(2, 1, 1), devices: []Device{{Budget: 0}, {Budget: unlimited, Link: 1e9}},
			want: []Run{{1, 0, 2}},
		}, {
			name:    "overhead counts against the budget",
			entries: blocks(2, 1, 1, 5, 5), devices: []Device{{Budget: 7}, {Budget: 10, Overhead: 5}},
			want: []Run{{0, 0, 3}, {1, 3, 4}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			runs, err := Balanced(test.entries, test.devices)
			require.NoError(t, err)
			require.Equal(t, test.want, runs)
			require.NoError(t, Check(test.entries, test.devices, runs))
		})
	}
}

func TestBalancedSaysWhatIsNeededInAll(t *testing.T) {
	_, err := Balanced(blocks(2, 4, 9, 4), budgets(5, 10))
	require.ErrorIs(t, err, ErrNoFit)
	require.EqualError(t, err, "the model doesn't fit the devices' budgets: "+
		"entry 2 (block 2) is 3 bytes too large for b: it needs 4 there beside 9, overhead included, and the budget is 10; "+
		"all entries on one device would take 17, and the budgets add up to 15")

	_, err = Balanced(blocks(3, math.MaxInt64, 0), []Device{{Budget: math.MaxInt64 - 1}, {Budget: math.MaxInt64 - 1}, {Budget: 0}})
	require.ErrorContains(t, err, fmt.Sprintf("the budgets add up to %d", int64(math.MaxInt64)), "and don't overflow")
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
		{"negative output", []Entry{{OutBytes: -1, Costs: []Cost{{}}}}, one, "entry 0 hands on -1 bytes"},
		{"negative overhead", cost(Cost{}), []Device{{Name: "x", Overhead: -1}}, "x: an overhead of -1"},
		{"negative time", cost(Cost{Fixed: -1}), one, "-1 seconds a batch"},
		{"NaN time", cost(Cost{PerRow: math.NaN()}), one, "NaN a row"},
		{"endless time", cost(Cost{PerRow: math.Inf(1)}), one, "+Inf a row"},
		{"NaN link", cost(Cost{}), []Device{{Link: math.NaN()}}, "device 0: an overhead of 0 bytes and a link of NaN"},
		{"weights and state overflow", cost(Cost{Weights: math.MaxInt64, State: 1}), one, "more than 2^63"},
		{"entries overflow", blocks(1, math.MaxInt64, 1), one, "entry 1 (block 1) on a"},
		{"overhead overflows", cost(Cost{Weights: math.MaxInt64}), []Device{{Overhead: 1, Budget: -1}}, "more than 2^63"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, pack := range []func([]Entry, []Device) ([]Run, error){
				FirstFit, Balanced,
				func(e []Entry, d []Device) ([]Run, error) { return nil, Check(e, d, nil) },
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
	require.ErrorContains(t, err, "entry 2 (block 2) is 1 bytes too large for a")
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
}
