package packer

import (
	"fmt"
	"slices"
)

// Report describes a placement: the memory and time of each run, and why the run ended.
type Report struct {
	Devices   []Use       // one for each device, in the same order
	Memories  []MemoryUse // one for each Memory of the devices, in the order in which they appear
	Round     float64     // seconds for one batch to pass through all runs
	Slowest   int         // the index of the device whose run has the longest time, the first of equals; -1 if there are no runs
	Crossings int         // how often a batch moves to a different device; consecutive runs on devices of the same Name count as one
}

// Use describes the run of one device in a placement.
type Use struct {
	Run     Run     // the entries; From and To are equal if the device has no run
	Bytes   int64   // bytes of the run, as counted by Load
	Free    int64   // bytes left in the budgets and memories of the device and its replicas, the minimum of them; -1 if none is limited
	Seconds float64 // seconds for one batch
	Share   float64 // Seconds as a fraction of the Round, from 0 to 1

	// Spill is the reason why the entry after Run did not fit on the device, given the
	// runs before. It is nil if no entry follows, or if the entry would have fitted but the
	// placement put it elsewhere, for example because that is faster.
	Spill *Spill
}

// MemoryUse describes the use of one memory by all runs together.
type MemoryUse struct {
	Memory *Memory
	Bytes  int64 // bytes used
	Free   int64 // bytes left of the budget; -1 if it is unlimited
}

// Explain describes a placement. For a placement by FirstFit, each Spill is the reason why
// FirstFit continued with the next device.
//
// The runs may exceed budgets, in which case Free is 0; use Check to find out. If the runs
// are wrong in another way, Explain returns the same error as Check.
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
	sizes := make([][]int64, len(devices)) // bytes of the run on each replica
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
		if share := use.Seconds / report.Round; share > 0 { // false for NaN, if Round is 0 or infinite
			use.Share = share
		}
	}
	return report, nil
}

// Excluded returns the reason why a device can't hold any of the entries, not even in a run of
// a single entry and without other runs. The Spill is that of the entry for which the fewest
// bytes are missing. It is nil if the device can hold some entry or there are no entries.
func Excluded(entries []Entry, devices []Device, device int) (*Spill, error) {
	if err := validate(entries, devices); err != nil {
		return nil, err
	}
	if device < 0 || device >= len(devices) {
		return nil, fmt.Errorf("there is no device %d: there are %d devices, numbered from 0", device, len(devices))
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

// explain sets the fields of use that depend only on its run and the runs before, and makes
// that run the walk's current run.
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

// tighter returns the smaller of two amounts of free memory, either of which may be -1 for no
// limit.
func tighter(a, b int64) int64 {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// left returns the bytes left of a budget, or -1 if the budget is unlimited.
func left(budget, bytes int64) int64 {
	if budget < 0 {
		return -1
	}
	return max(0, budget-bytes)
}
