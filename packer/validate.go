package packer

import (
	"fmt"
	"math"
	"slices"
)

// validate says what is wrong with the arguments, so that no sum over one
// device's entries overflows and no index is out of range afterwards.
func validate(entries []Entry, devices []Device) error {
	if len(devices) == 0 {
		return fmt.Errorf("there is no device to place %d entries on", len(entries))
	}
	total := make([]int64, len(devices)) // of all entries on one device
	for i := range devices {
		for _, r := range devices[i].replicas() {
			if link := devices[i].Link; r.Overhead < 0 || !isTime(link) {
				return fmt.Errorf("%s: an overhead of %d bytes and a link of %g seconds a byte", r.label(i), r.Overhead, link)
			}
			total[i] = max(total[i], r.Overhead)
		}
	}
	for i, e := range entries {
		if len(e.Costs) != len(devices) {
			return fmt.Errorf("%s has costs for %d devices, there are %d", e.label(i), len(e.Costs), len(devices))
		}
		if e.OutBytes < 0 {
			return fmt.Errorf("%s hands on %d bytes", e.label(i), e.OutBytes)
		}
		for d := range e.Costs {
			c, sum := &e.Costs[d], &total[d]
			switch {
			case c.Weights < 0 || c.State < 0:
				return fmt.Errorf("%s on %s: %d bytes of weights and %d of state", e.label(i), devices[d].label(d), c.Weights, c.State)
			case c.Own < 0 || c.Own > c.Weights:
				return fmt.Errorf("%s on %s: %d bytes of weights of its own, of %d", e.label(i), devices[d].label(d), c.Own, c.Weights)
			case !isTime(c.Fixed) || !isTime(c.PerRow):
				return fmt.Errorf("%s on %s: %g seconds a batch and %g a row", e.label(i), devices[d].label(d), c.Fixed, c.PerRow)
			case c.Weights > math.MaxInt64-*sum || c.State > math.MaxInt64-*sum-c.Weights:
				return fmt.Errorf("%s on %s: the sizes up to here add up to more than 2^63 bytes", e.label(i), devices[d].label(d))
			}
			*sum += c.Weights + c.State
		}
	}
	return nil
}

// wellFormed says what is wrong with runs, budgets aside: they must hold every
// entry once, in order, each on a device after the run before.
func wellFormed(entries []Entry, devices []Device, runs []Run) error {
	next, device := 0, -1
	for i, r := range runs {
		switch {
		case r.Device < 0 || r.Device >= len(devices):
			return fmt.Errorf("run %d is on device %d of %d", i, r.Device, len(devices))
		case r.Device <= device:
			return fmt.Errorf("run %d is on device %d, after a run on device %d: runs stand in the order of the devices, one on each", i, r.Device, device)
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

// isTime says that x is a number of seconds: neither negative nor endless.
func isTime(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// label names the entry in errors.
func (e Entry) label(i int) string {
	if e.Name == "" {
		return fmt.Sprintf("entry %d", i)
	}
	return fmt.Sprintf("entry %d (%s)", i, e.Name)
}

// label names a replica of the i-th device in errors.
func (r *Replica) label(i int) string {
	if r.Name == "" {
		return fmt.Sprintf("device %d", i)
	}
	return r.Name
}

func (d Device) label(i int) string { return d.replicas()[0].label(i) }

// closed says that a device of the place takes nothing.
func (d *Device) closed() bool {
	return slices.ContainsFunc(d.replicas(), func(r Replica) bool { return r.Budget == 0 })
}

// same says that two places have the same devices.
func (d *Device) same(o *Device) bool {
	return slices.EqualFunc(d.replicas(), o.replicas(), func(a, b Replica) bool { return a.Name != "" && a.Name == b.Name })
}
