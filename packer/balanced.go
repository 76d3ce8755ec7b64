package packer

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Balanced cuts the entries into contiguous runs, one at most on each device, in
// the order of the devices, so that the slowest run takes the least time: in a
// pipeline that is full, that is the time between two batches. Load says what a
// run's time is. A device may be left without entries.
//
// Of cuts that are equal in that, it takes one with the fewest devices; of those
// the one with the least time in all, which is what a single batch waits; and of
// those the most even one.
//
// Budgets are kept as in FirstFit, and the two fail alike. The runs are in
// order, none empty. Entries that don't fit are an error that wraps ErrNoFit:
// FirstFit's, with what they need and what they may have in all.
func Balanced(entries []Entry, devices []Device) ([]Run, error) {
	switch _, err := FirstFit(entries, devices); {
	case errors.Is(err, ErrNoFit):
		return nil, inAll(err, entries, devices)
	case err != nil:
		return nil, err
	}
	return bestWithin(entries, devices, leastSlowest(entries, devices)), nil
}

// eachRun calls visit with every run within its device's budget, device after
// device, and within one by its first entry, then its last.
func eachRun(entries []Entry, devices []Device, visit func(r Run, seconds float64)) {
	l := newLoad(entries, devices)
	for d := range devices {
		for from := range entries {
			l.begin(d, from)
			for e := from; e < len(entries) && l.over(e) <= 0; e++ {
				l.add(e)
				visit(Run{d, from, e + 1}, l.seconds)
			}
		}
	}
}

// leastSlowest returns the least time that the slowest run can take. There is a
// cut within the budgets.
func leastSlowest(entries []Entry, devices []Device) float64 {
	// before[n]: the least slowest run with n entries on the devices before the
	// one looked at; after[n]: that one included. NaN: n entries have no place.
	before := slices.Repeat([]float64{math.NaN()}, len(entries)+1)
	before[0] = 0
	after := slices.Clone(before)
	device := 0
	eachRun(entries, devices, func(r Run, seconds float64) {
		if r.Device != device {
			device = r.Device
			copy(before, after)
		}
		if s := max(before[r.From], seconds); !math.IsNaN(s) && !(after[r.To] <= s) {
			after[r.To] = s
		}
	})
	return after[len(entries)]
}

// choice is the best way found to place the first entries up to some one.
type choice struct {
	devices int
	seconds float64 // in all
	squares float64 // the sum of the squares of the runs' times: less is more even
	last    Run     // its last run
	before  *choice // what stands before that; nil: there is no run at all
}

// bestWithin returns the best cut of those whose slowest run takes no longer
// than slowest. One exists.
//
// The two passes can't be one: which of two beginnings is better, one with a
// faster slowest run or one with fewer devices, depends on what follows.
func bestWithin(entries []Entry, devices []Device, slowest float64) []Run {
	before := make([]*choice, len(entries)+1)
	before[0] = &choice{}
	after := slices.Clone(before)
	device := 0
	eachRun(entries, devices, func(r Run, seconds float64) {
		if r.Device != device {
			device = r.Device
			copy(before, after)
		}
		b := before[r.From]
		if b == nil || seconds > slowest {
			return
		}
		c := choice{devices: b.devices + 1, seconds: b.seconds + seconds, squares: b.squares + seconds*seconds, last: r, before: b}
		if after[r.To] == nil || c.betterThan(*after[r.To]) {
			kept := c // only what is kept goes to the heap
			after[r.To] = &kept
		}
	})
	var runs []Run
	for c := after[len(entries)]; c.before != nil; c = c.before {
		runs = append(runs, c.last)
	}
	slices.Reverse(runs)
	return runs
}

func (c choice) betterThan(other choice) bool {
	// The same times added in another order differ in their last digits: that
	// must not hide that two cuts are equal.
	const noise = 1e-9
	switch {
	case c.devices != other.devices:
		return c.devices < other.devices
	case math.Abs(c.seconds-other.seconds) > noise*other.seconds:
		return c.seconds < other.seconds
	}
	return c.squares < other.squares*(1-noise)
}

// inAll adds to an error of entries that don't fit what they need on the one
// device where they need least, and what the devices have together.
func inAll(err error, entries []Entry, devices []Device) error {
	least, budgets := int64(math.MaxInt64), int64(0)
	for d := range devices {
		bytes, _ := Load(entries, devices, Run{d, 0, len(entries)})
		least = min(least, bytes)
		budgets += min(devices[d].Budget, math.MaxInt64-budgets) // none is unlimited: all would fit that one
	}
	return fmt.Errorf("%w; all entries on one device would take %d, and the budgets add up to %d", err, least, budgets)
}
