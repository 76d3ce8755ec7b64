package packer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each replica holds all of a run, within its own budget, and their Memory holds
// both.
func TestReplicas(t *testing.T) {
	host := &Memory{Name: "host", Budget: 60}
	entries := model(2, 0, 10, 4, 0)
	devices := []Device{
		{Name: "cpu:0", Budget: 30, Memory: host, Also: []Replica{{Name: "cpu:1", Budget: 20, Memory: host}}},
		{Name: "cpu:2", Budget: unlimited, Memory: host},
	}
	for _, pack := range []func([]Entry, []Device) ([]Run, error){FirstFit, Balanced} {
		runs, err := pack(entries, devices)
		require.NoError(t, err)
		require.Equal(t, []Run{{0, 0, 3}, {1, 3, 6}}, runs, "the smaller budget of the two counts")
	}
	bytes, seconds := Load(entries, devices, Run{0, 0, 3})
	require.EqualValues(t, 40, bytes)
	require.Equal(t, 20.0, seconds)
	report, err := Explain(entries, devices, []Run{{0, 0, 3}, {1, 3, 6}})
	require.NoError(t, err)
	require.Equal(t, []MemoryUse{{Memory: host, Bytes: 60}}, report.Memories)
	require.Zero(t, report.Devices[0].Free)
	require.Equal(t, "cpu:1", report.Devices[0].Spill.Device)
	require.Equal(t, 1, report.Crossings)

	// What both places of a device share lies there once, what two devices use twice.
	for i := range entries {
		entries[i].Costs[0].Shared, entries[i].Costs[1].Shared = "table", "table"
	}
	host.Budget = 30
	runs, err := Balanced(entries, devices)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	host.Budget = 19
	_, err = FirstFit(entries, devices[:1])
	require.ErrorContains(t, err, "costs for 2 devices")
	entries = model(1, 0, 10, 4, 0)
	devices[0].Budget, devices[0].Also[0].Budget = unlimited, unlimited
	_, err = FirstFit(entries, devices[:1])
	require.EqualError(t, err, "the model doesn't fit: device cpu:0 in host: budget 19 bytes, of which others hold 10 bytes, block 0 needs 10 bytes: 1 bytes short, and 61 bytes with the 4 entries after it")
	devices[0].Also[0].Name = "cpu:0"
	for i := range entries {
		entries[i].Costs[0].Shared = "table"
	}
	_, err = FirstFit(entries, devices[:1])
	require.NoError(t, err, "one device, one table")

	devices[0].Also[0].Budget = 0
	_, err = FirstFit(entries, devices[:1])
	require.ErrorIs(t, err, ErrNoFit, "a replica that takes nothing closes the place")
	devices[0].Also[0].Overhead = -1
	_, err = FirstFit(entries, devices[:1])
	require.EqualError(t, err, "cpu:0: an overhead of -1 bytes and a link of 0 seconds per byte: neither may be negative, and the link must be finite")
}
