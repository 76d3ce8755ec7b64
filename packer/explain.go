package packer

import (
	"fmt"
	"slices"
)

// Report says what a placement takes, and what ended each run.
type Report struct {
	Devices   []Use       // one a device, in their order
	Memories  []MemoryUse // each that a device has, in the order of the devices
	Round     float64     // seconds that a batch alone takes through all runs
	Slowest   int         // the device whose run takes longest, the first of equals; -1: there are no runs
	Crossings int         // how often a batch goes from one device to another; places of one name are one
}

// Use is what a placement takes of one device.
type Use struct {
	Run     Run     // its entries; From and To are equal where it has none
	Bytes   int64   // that the run holds, as Load counts them
	Free    int64   // bytes left of its budget and its Memory, or of a replica's, whichever are least; -1: none has a limit
	Seconds float64 // that a batch takes there
	Share   float64 // Seconds of the Round, 0 to 1

	// Spill says why the entry after Run didn't fit here beside the runs before.
	// Nil: no entry follows, or it would have fitted, and another cut was faster.
	Spill *Spill
}

// MemoryUse is what all runs together take of one memory.
type MemoryUse struct {
	Memory *Memory
	Bytes  int64
	Free   int64 // -1: it has no limit
}

// Explain reports on a placement. The spills of one by FirstFit are the very
// reasons why its cursor moved on.
//
// The runs may exceed budgets, of which 0 bytes are free then: that is for Check
// to judge. Runs that are malformed otherwise are an error, as Check's.
func Explain(entries []Entry, devices []Device, runs []Run) (Report, error) {
	if err := validate(entries, devices); err != nil {
		return Report{}, err
	}
	if err := wellFormed(entries, devices, runs); err != nil {
		return Report{}, err
	}
	report := Report{Devices: make([]Use, len(devices)), Slowest: -1}
	w := newWalk(entries, devices)
	next, before := 0, -1
	sizes := make([][]int64, len(devices)) // that the runs take on each replica
	for d := range devices {
		r := Run{d, next, next}
		if len(runs) > 0 && runs[0].Device == d {
			r, runs = runs[0], runs[1:]
		}
		use := &report.Devices[d]
		use.Run = r
		if err := w.explain(use); err != nil {
			return Report{}, err
		}
		if r.To > r.From {
			sizes[d] = slices.Clone(w.size)
		}
		next = r.To
		if r.To == r.From {
			continue
		}
		w.settle()
		report.Round += use.Seconds
		if report.Slowest < 0 || use.Seconds > report.Devices[report.Slowest].Seconds {
			report.Slowest = d
		}
		if before >= 0 && !devices[d].same(&devices[before]) {
			report.Crossings++
		}
		before = d
	}
	for i, m := range w.ledger.memories {
		report.Memories = append(report.Memories, MemoryUse{m, w.held[i], left(m.Budget, w.held[i])})
	}
	for d := range report.Devices {
		use := &report.Devices[d]
		use.Free = -1
		for i, r := range w.replicas[d] {
			var bytes int64
			if sizes[d] != nil {
				bytes = sizes[d][i]
			}
			use.Free = tighter(use.Free, left(r.Budget, bytes))
			if m := w.ledger.of[d][i]; m >= 0 {
				use.Free = tighter(use.Free, report.Memories[m].Free)
			}
		}
		if share := use.Seconds / report.Round; share > 0 { // not where nothing takes time, or all too much
			use.Share = share
		}
	}
	return report, nil
}

// Excluded says why a device can't hold any of the entries, as a run of one entry
// and with no other run anywhere: it is the spill of the entry that is the fewest
// bytes short. It is nil if the device can hold one, or there are no entries.
func Excluded(entries []Entry, devices []Device, device int) (*Spill, error) {
	if err := validate(entries, devices); err != nil {
		return nil, err
	}
	if device < 0 || device >= len(devices) {
		return nil, fmt.Errorf("device %d of %d", device, len(devices))
	}
	var least *Spill
	w := newWalk(entries, devices)
	for i := range entries {
		w.set(Run{device, i, i + 1})
		spill, err := w.spill()
		if spill == nil || err != nil {
			return nil, err
		}
		if least == nil || spill.Short < least.Short {
			least = spill
		}
	}
	return least, nil
}

// explain fills in what is known of a run beside the runs before it, and makes
// it the walk's.
func (w *walk) explain(use *Use) (err error) {
	r := use.Run
	if r.To < len(w.entries) {
		w.set(Run{r.Device, r.From, r.To + 1})
		if use.Spill, err = w.spill(); err != nil {
			return err
		}
	}
	w.set(r)
	if r.To == r.From {
		return nil
	}
	sizes, err := w.sizes()
	use.Bytes, use.Seconds = sum(sizes), w.seconds
	return err
}

// tighter is the less of two rests, of which -1 is no limit.
func tighter(a, b int64) int64 {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// left is what is free of a budget; -1: it is no limit.
func left(budget, bytes int64) int64 {
	if budget < 0 {
		return -1
	}
	return max(0, budget-bytes)
}
