package packer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is an embedding, blocks and a head, of so many bytes each, that take as
// many seconds.
func model(devices int, embedding, block int64, blocks int, head int64) []Entry {
	entry := func(name string, n int64) Entry {
		return Entry{Name: name, Costs: same(devices, Cost{Weights: n, PerRow: float64(n)})}
	}
	entries := []Entry{entry("embedding", embedding)}
	for i := range blocks {
		entries = append(entries, entry(fmt.Sprint("block ", i), block))
	}
	return append(entries, entry("output head", head))
}

// TestCasesThatOthersGotWrong has placements that went wrong in other programs:
// a budget ignored or blamed on the wrong device, a device overrun, a layer lost.
func TestCasesThatOthersGotWrong(t *testing.T) {
	host := &Memory{Name: "host", Budget: 60}
	tests := []struct {
		name            string
		entries         []Entry
		devices         []Device
		first, balanced []Run
		err             string // of both
	}{
		{
			name:    "one device, its budget smaller than the model",
			entries: model(1, 5, 10, 4, 5),
			devices: []Device{{Name: "cuda:0", Budget: 32, Overhead: 2}},
			err: "the model doesn't fit: device cuda:0: budget 32 bytes, block 2 needs 10 bytes " +
				"beside 25 bytes of the entries before it and 2 bytes of overhead: 5 bytes short, and 20 bytes with the 2 entries after it",
		}, {
			name:     "only the second device, the larger, holds the head",
			entries:  model(2, 4, 5, 4, 30),
			devices:  budgets(24, 50),
			first:    []Run{{0, 0, 5}, {1, 5, 6}},
			balanced: []Run{{0, 0, 5}, {1, 5, 6}},
		}, {
			name:     "the first device is too small for the embedding",
			entries:  model(2, 30, 5, 4, 4),
			devices:  budgets(24, 60),
			first:    []Run{{1, 0, 6}},
			balanced: []Run{{1, 0, 6}},
		}, {
			name:    "a first block larger than every budget",
			entries: blocks(3, 50, 1, 1),
			devices: budgets(20, 40, 30),
			err:     "the model doesn't fit: device c: budget 30 bytes, its first entry block 0 needs 50 bytes: 20 bytes short, and 22 bytes with the 2 entries after it",
		}, {
			name:     "a model with one block",
			entries:  model(2, 4, 10, 1, 4),
			devices:  budgets(14, 14),
			first:    []Run{{0, 0, 2}, {1, 2, 3}},
			balanced: []Run{{0, 0, 2}, {1, 2, 3}},
		}, {
			name:     "a model that is one block",
			entries:  blocks(3, 7),
			devices:  budgets(6, 7, 8),
			first:    []Run{{1, 0, 1}},
			balanced: []Run{{1, 0, 1}},
		}, {
			name:     "more devices than layers",
			entries:  timed(5, 1, 1),
			devices:  budgets(1, 1, 1, 1, 1),
			first:    []Run{{0, 0, 1}, {1, 1, 2}},
			balanced: []Run{{0, 0, 1}, {1, 1, 2}},
		}, {
			name:     "equal devices",
			entries:  model(4, 10, 10, 6, 10),
			devices:  budgets(20, 20, 20, 20),
			first:    []Run{{0, 0, 2}, {1, 2, 4}, {2, 4, 6}, {3, 6, 8}},
			balanced: []Run{{0, 0, 2}, {1, 2, 4}, {2, 4, 6}, {3, 6, 8}},
		}, {
			name:     "equal devices and a share that isn't whole",
			entries:  model(4, 1, 1, 8, 1),
			devices:  budgets(unlimited, unlimited, unlimited, unlimited),
			first:    []Run{{0, 0, 10}},
			balanced: []Run{{0, 0, 3}, {1, 3, 6}, {2, 6, 8}, {3, 8, 10}},
		}, {
			name:     "of 80 bytes that a device has, 12 are free",
			entries:  model(2, 2, 10, 5, 2),
			devices:  budgets(12, 80),
			first:    []Run{{0, 0, 2}, {1, 2, 7}},
			balanced: []Run{{0, 0, 2}, {1, 2, 7}},
		}, {
			name:     "an embedding larger than all blocks together",
			entries:  model(2, 50, 5, 6, 1),
			devices:  budgets(60, 60),
			first:    []Run{{0, 0, 3}, {1, 3, 8}},
			balanced: []Run{{0, 0, 1}, {1, 1, 8}},
		}, {
			name:     "an embedding and a head that unbalance the first and the last stage",
			entries:  model(3, 20, 10, 8, 20),
			devices:  budgets(unlimited, unlimited, unlimited),
			first:    []Run{{0, 0, 10}},
			balanced: []Run{{0, 0, 3}, {1, 3, 7}, {2, 7, 10}},
		}, {
			name:    "the GPUs can't hold the model: its tail goes to the CPU, in one piece",
			entries: slowOn(2, 50, model(3, 5, 10, 8, 5)),
			devices: []Device{
				{Name: "cuda:0", Budget: 40, Overhead: 3},
				{Name: "cuda:1", Budget: 25, Overhead: 3},
				{Name: "cpu", Budget: unlimited},
			},
			first:    []Run{{0, 0, 4}, {1, 4, 6}, {2, 6, 10}},
			balanced: []Run{{0, 0, 4}, {1, 4, 6}, {2, 6, 10}},
		}, {
			name:    "the GPUs hold the model: a slow CPU gets nothing",
			entries: slowOn(2, 50, model(3, 5, 10, 8, 5)),
			devices: []Device{
				{Name: "cuda:0", Budget: 60, Overhead: 3},
				{Name: "cuda:1", Budget: 60, Overhead: 3},
				{Name: "cpu", Budget: unlimited},
			},
			first:    []Run{{0, 0, 6}, {1, 6, 10}},
			balanced: []Run{{0, 0, 5}, {1, 5, 10}},
		}, {
			name:    "groups of cores each have room, the memory under them hasn't",
			entries: blocks(2, 40, 30),
			devices: []Device{{Name: "cpu:0", Budget: 40, Memory: host}, {Name: "cpu:1", Budget: 40, Memory: host}},
			err:     "the model doesn't fit: device cpu:1 in host: budget 60 bytes, of which others hold 40 bytes, its first entry block 1 needs 30 bytes: 10 bytes short",
		}, {
			name:    "one GPU at two places",
			entries: model(3, 4, 10, 6, 4),
			devices: func() []Device {
				gpu := &Memory{Name: "cuda:0", Budget: 40}
				return []Device{
					{Name: "cuda:0", Budget: 16, Memory: gpu},
					{Name: "cpu", Budget: 40},
					{Name: "cuda:0", Budget: unlimited, Memory: gpu},
				}
			}(),
			first:    []Run{{0, 0, 2}, {1, 2, 6}, {2, 6, 8}},
			balanced: []Run{{0, 0, 2}, {1, 2, 5}, {2, 5, 8}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, pack := range []struct {
				name string
				pack func([]Entry, []Device) ([]Run, error)
				want []Run
			}{{"FirstFit", FirstFit, test.first}, {"Balanced", Balanced, test.balanced}} {
				runs, err := pack.pack(test.entries, test.devices)
				if test.err != "" {
					require.ErrorIs(t, err, ErrNoFit, pack.name)
					require.EqualError(t, err, test.err, pack.name)
					continue
				}
				require.NoError(t, err, pack.name)
				require.Equal(t, pack.want, runs, pack.name)
				require.NoError(t, Check(test.entries, test.devices, runs), pack.name)
			}
		})
	}
}

// slowOn makes one device slower by a factor.
func slowOn(device int, factor float64, entries []Entry) []Entry {
	for _, e := range entries {
		e.Costs[device].PerRow *= factor
	}
	return entries
}
