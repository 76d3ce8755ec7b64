package packer

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHostileNumbers makes problems of whatever numbers it's given, most of them
// extreme. Nothing panics, and what is placed keeps the budgets.
func FuzzHostileNumbers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x02\x03 some bytes, so that there are devices and entries with numbers of all kinds"))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i * 37)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := numbers(data)
		entries, devices := hostile(&in)
		runs, err := FirstFit(entries, devices)
		if err == nil {
			requireSound(t, entries, devices, runs)
		}
		balanced, balancedErr := Balanced(entries, devices)
		if balancedErr == nil {
			requireSound(t, entries, devices, balanced)
		} else if err == nil {
			require.NotErrorIs(t, balancedErr, ErrNoFit)
		}

		// Runs that nobody made.
		any := []Run{{in.small(), in.small(), in.small()}, {in.small(), in.small(), in.small()}}
		checkErr := Check(entries, devices, any)
		if _, err := Explain(entries, devices, any); err != nil {
			require.Error(t, checkErr)
		}
	})
}

// requireSound checks what holds for any placement, however large its numbers.
func requireSound(t *testing.T, entries []Entry, devices []Device, runs []Run) {
	require.NoError(t, Check(entries, devices, runs))
	for _, r := range runs {
		bytes, seconds := Load(entries, devices, r)
		require.GreaterOrEqual(t, bytes, int64(0))
		require.GreaterOrEqual(t, seconds, 0.0)
		if d := devices[r.Device]; d.Budget >= 0 && d.Also == nil {
			require.LessOrEqual(t, bytes, d.Budget)
		}
	}
	report, err := Explain(entries, devices, runs)
	if err != nil { // a need that only a longer run has may be negative
		require.NotErrorIs(t, err, ErrNoFit)
		return
	}
	for _, use := range report.Devices {
		require.GreaterOrEqual(t, use.Free, int64(-1))
		require.False(t, math.IsNaN(use.Share))
		require.LessOrEqual(t, use.Share, 1.0)
	}
	for _, m := range report.Memories {
		require.GreaterOrEqual(t, m.Bytes, int64(0))
		if m.Memory.Budget >= 0 {
			require.LessOrEqual(t, m.Bytes, m.Memory.Budget)
		}
	}
}

func hostile(in *numbers) ([]Entry, []Device) {
	memories := []*Memory{nil, {Budget: in.bytes()}, {Budget: in.bytes()}}
	devices := make([]Device, in.next()%6)
	for i := range devices {
		devices[i] = Device{
			Name:     []string{"", "x", "y"}[in.next()%3],
			Budget:   in.bytes(),
			Overhead: in.bytes(),
			Link:     in.seconds(),
			Memory:   memories[in.next()%3],
		}
		if needs := []int64{in.bytes(), in.bytes(), in.bytes()}; in.next()%2 == 0 {
			devices[i].Run = func(from, to int) int64 { return needs[(from+2*to)%3] }
		}
		for range in.next() / 128 {
			devices[i].Also = append(devices[i].Also, Replica{
				Name:     []string{"", "x", "y"}[in.next()%3],
				Budget:   in.bytes(),
				Overhead: in.bytes(),
				Memory:   memories[in.next()%3],
				Run:      devices[i].Run,
			})
		}
	}
	entries := make([]Entry, in.next()%12)
	for i := range entries {
		entries[i].OutBytes = in.bytes()
		for range len(devices) + []int{0, 0, 0, 0, 0, 0, 0, 1}[in.next()%8] {
			entries[i].Costs = append(entries[i].Costs, Cost{
				Weights: in.bytes(),
				State:   in.bytes(),
				Shared:  []string{"", "", "table"}[in.next()%3],
				Own:     []int64{0, 0, 0, in.bytes()}[in.next()%4],
				Fixed:   in.seconds(),
				PerRow:  in.seconds(),
			})
		}
	}
	return entries, devices
}

// numbers reads numbers from bytes, and zeros after their end.
type numbers []byte

func (n *numbers) next() byte {
	if len(*n) == 0 {
		return 0
	}
	b := (*n)[0]
	*n = (*n)[1:]
	return b
}

func (n *numbers) small() int { return int(n.next()) - 3 }

// bytes are sizes, mostly small ones and powers of two, up to the largest.
func (n *numbers) bytes() int64 {
	switch b := n.next(); b % 32 {
	case 31:
		return math.MaxInt64 - int64(b/32)
	case 30:
		return math.MinInt64 + int64(b/32)
	case 29:
		return 1<<60 + int64(b)
	case 28:
		return -1
	default:
		return int64(b)
	}
}

// seconds are times, mostly small ones, up to those that aren't numbers.
func (n *numbers) seconds() float64 {
	switch b := n.next(); b % 32 {
	case 31:
		return math.MaxFloat64 / float64(1+b/32)
	case 30:
		return math.Float64frombits(uint64(b))
	case 29:
		return math.Float64frombits(binary.LittleEndian.Uint64([]byte{n.next(), n.next(), n.next(), n.next(), n.next(), n.next(), n.next(), n.next()}))
	default:
		return float64(b) / 8
	}
}
