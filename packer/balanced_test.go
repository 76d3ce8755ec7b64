package packer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
