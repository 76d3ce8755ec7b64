package packer

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	gpu := &Memory{Name: "cuda:0", Budget: 60}
	entries := []Entry{
		{Name: "embedding", Costs: same(5, Cost{Weights: 20, Shared: "table", PerRow: 1})},
		{Name: "block 0", Costs: same(5, Cost{Weights: 10, State: 5, PerRow: 2})},
		{Name: "block 1", Costs: same(5, Cost{Weights: 10, State: 5, PerRow: 2})},
		{Name: "block 2", Costs: same(5, Cost{Weights: 10, State: 5, PerRow: 2})},
		{Name: "output head", Costs: same(5, Cost{Weights: 20, Shared: "table", PerRow: 1})},
	}
	devices := []Device{
		{Name: "cuda:0", Budget: 40, Overhead: 4, Memory: gpu},
		{Name: "cuda:1", Budget: 0},
		{Name: "cpu", Budget: 20, Run: perEntry(3)},
		{Name: "cuda:0", Budget: unlimited, Memory: gpu},
		{Name: "cpu", Budget: unlimited},
	}
	runs, err := FirstFit(entries, devices)
	require.NoError(t, err)
	report, err := Explain(entries, devices, runs)
	require.NoError(t, err)
	require.Equal(t, Report{
		Devices: []Use{
			{
				Run: Run{0, 0, 2}, Bytes: 39, Free: 1, Seconds: 3, Share: 3. / 8,
				Spill: &Spill{Device: "cuda:0", Entry: "block 1", Run: Run{0, 0, 3}, Need: 15, Held: 35, Overhead: 4, Budget: 40, Short: 14},
			}, {
				Run:   Run{1, 2, 2},
				Spill: &Spill{Device: "cuda:1", Entry: "block 1", Run: Run{1, 2, 3}, Need: 15, Short: 15},
			}, {
				Run: Run{2, 2, 3}, Bytes: 18, Free: 2, Seconds: 2, Share: 2. / 8,
				Spill: &Spill{Device: "cpu", Entry: "block 2", Run: Run{2, 2, 4}, Need: 15, Held: 15, Overhead: 6, Budget: 20, Short: 16},
			}, {
				// Its table is the first run's.
				Run: Run{3, 3, 5}, Bytes: 35, Free: 6, Seconds: 3, Share: 3. / 8,
			}, {
				Run: Run{4, 5, 5}, Free: -1,
			},
		},
		Memories:  []MemoryUse{{Memory: gpu, Bytes: 54, Free: 6}},
		Round:     8,
		Slowest:   0,
		Crossings: 2,
	}, report)
	require.Equal(t, "device cpu: budget 20 B, block 2 needs 15 B beside 15 B of the entries before it and 6 B of overhead: 16 B short",
		report.Devices[2].Spill.Describe(func(n int64) string { return fmt.Sprint(n, " B") }))
}

func TestExplainWhatBalancedCut(t *testing.T) {
	entries := timed(3, 1, 1, 1, 1)
	devices := []Device{{Name: "a", Budget: unlimited}, {Name: "b", Budget: 1}, {Name: "a", Budget: unlimited}}
	report, err := Explain(entries, devices, []Run{{0, 0, 2}, {2, 2, 4}})
	require.NoError(t, err)
	require.Nil(t, report.Devices[0].Spill, "the third entry would have fitted")
	require.Nil(t, report.Devices[1].Spill, "here too")
	require.Zero(t, report.Crossings, "it is the same device")
	require.Equal(t, 0, report.Slowest, "the first of equals")
	require.Equal(t, .5, report.Devices[2].Share)

	devices[0].Name, devices[2].Name = "", ""
	report, err = Explain(entries, devices, []Run{{0, 0, 2}, {2, 2, 4}})
	require.NoError(t, err)
	require.Equal(t, 1, report.Crossings, "devices without a name differ")
}

func TestExplainOddities(t *testing.T) {
	report, err := Explain(nil, budgets(5), nil)
	require.NoError(t, err)
	require.Equal(t, Report{Devices: []Use{{Free: 5}}, Slowest: -1}, report)

	// What exceeds a budget is reported.
	report, err = Explain(blocks(1, 7), budgets(5), []Run{{0, 0, 1}})
	require.NoError(t, err)
	require.Equal(t, Use{Run: Run{0, 0, 1}, Bytes: 7}, report.Devices[0])
	require.Zero(t, report.Slowest)

	_, err = Explain(blocks(2, 7, 7), budgets(50, 50), []Run{{0, 0, 1}})
	require.EqualError(t, err, "the runs end at entry 1 of 2")

	report, err = Explain(timed(2, math.MaxFloat64, math.MaxFloat64), budgets(9, 9), []Run{{0, 0, 1}, {1, 1, 2}})
	require.NoError(t, err)
	require.Zero(t, report.Devices[0].Share, "a share of more than there are numbers")
}
