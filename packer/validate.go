package packer

import (
	"fmt"
	"math"
	"slices"
)

// validate returns an error if the arguments are invalid. After it has returned nil, no sum
// over one device's entries overflows and no index is out of range.
func validate(entries []Entry, devices []Device) error {
	if len(devices) == 0 {
		return fmt.Errorf("there is no device to place %d entries on", len(entries))
	}
	total := make([]int64, len(devices)) // for each device, the bytes of all entries and the overhead
	for i := range devices {
		for _, r := range devices[i].replicas() {
			if link := devices[i].Link; r.Overhead < 0 || !isTime(link) {
				return fmt.Errorf("%s: an overhead of %d bytes and a link of %g seconds per byte: neither may be negative, and the link must be finite", r.label(i), r.Overhead, link)
			}
			total[i] = max(total[i], r.Overhead)
		}
	}
	for i, e := range entries {
		if len(e.Costs) != len(devices) {
			return fmt.Errorf("%s has costs for %d devices, there are %d", e.label(i), len(e.Costs), len(devices))
		}
		if e.OutBytes < 0 {
			return fmt.Errorf("%s: OutBytes is %d, and must not be negative", e.label(i), e.OutBytes)
		}
		for d := range e.Costs {
			c, sum := &e.Costs[d], &total[d]
			switch {
			case c.Weights < 0 || c.State < 0:
				return fmt.Errorf("%s on %s: %d bytes of weights and %d of state: neither may be negative", e.label(i), devices[d].label(d), c.Weights, c.State)
			case c.Own < 0 || c.Own > c.Weights:
				return fmt.Errorf("%s on %s: Own is %d bytes, and must be from 0 to the %d bytes of weights", e.label(i), devices[d].label(d), c.Own, c.Weights)
			case !isTime(c.Fixed) || !isTime(c.PerRow):
				return fmt.Errorf("%s on %s: %g seconds per batch and %g per row: both must be finite and not negative", e.label(i), devices[d].label(d), c.Fixed, c.PerRow)
			case c.Weights > math.MaxInt64-*sum || c.State > math.MaxInt64-*sum-c.Weights:
				return fmt.Errorf("%s on %s: the sizes of this entry and those before it add up to more than 2^63 bytes", e.label(i), devices[d].label(d))
			}
			*sum += c.Weights + c.State
		}
	}
	return nil
}

// wellFormed returns an error unless the runs contain every entry once, in order, and each run
// is on a later device than the one before. It ignores budgets.
func wellFormed(entries []Entry, devices []Device, runs []Run) error {
	next, device := 0, -1
	for i, r := range runs {
		switch {
		case r.Device < 0 || r.Device >= len(devices):
			return fmt.Errorf("run %d is on device %d of %d", i, r.Device, len(devices))
		case r.Device <= device:
			return fmt.Errorf("run %d is on device %d, after a run on device %d: runs must be in the order of the devices, at most one on each", i, r.Device, device)
		case r.From != next:
			return fmt.Errorf("run %d begins at entry %d, not at entry %d, where the run before it ends", i, r.From, next)
		case r.To <= r.From || r.To > len(entries):
			return fmt.Errorf("run %d is entries %d to %d of %d", i, r.From, r.To, len(entries))
		}
		next, device = r.To, r.Device
	}
	if next != len(entries) {
		return fmt.Errorf("the runs end at entry %d of %d", next, len(entries))
	}
	return nil
}

// isTime reports whether x is a valid number of seconds: finite and not negative.
func isTime(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// label returns a name of the entry, which has index i, for errors.
func (e Entry) label(i int) string {
	if e.Name == "" {
		return fmt.Sprintf("entry %d", i)
	}
	return fmt.Sprintf("entry %d (%s)", i, e.Name)
}

// label returns a name of a replica of the device with index i, for errors.
func (r *Replica) label(i int) string {
	if r.Name == "" {
		return fmt.Sprintf("device %d", i)
	}
	return r.Name
}

// label returns a name of the device, which has index i, for errors.
func (d Device) label(i int) string { return d.replicas()[0].label(i) }

// unusable reports whether the budget of a replica is 0, so that the device gets no run.
func (d *Device) unusable() bool {
	return slices.ContainsFunc(d.replicas(), func(r Replica) bool { return r.Budget == 0 })
}

// same reports whether two positions have the same devices of the machine.
func (d *Device) same(o *Device) bool {
	return slices.EqualFunc(d.replicas(), o.replicas(), func(a, b Replica) bool { return a.Name != "" && a.Name == b.Name })
}
