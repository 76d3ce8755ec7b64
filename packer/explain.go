package packer

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
	Free    int64   // bytes left of its budget and its Memory, whichever are less; -1: neither has a limit
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
		next = r.To
		if r.To == r.From {
			continue
		}
		w.settle()
		report.Round += use.Seconds
		if report.Slowest < 0 || use.Seconds > report.Devices[report.Slowest].Seconds {
			report.Slowest = d
		}
		if before >= 0 && (devices[d].Name == "" || devices[d].Name != devices[before].Name) {
			report.Crossings++
		}
		before = d
	}
	for i, m := range w.ledger.memories {
		report.Memories = append(report.Memories, MemoryUse{m, w.held[i], left(m.Budget, w.held[i])})
	}
	for d := range report.Devices {
		use := &report.Devices[d]
		use.Free = left(devices[d].Budget, use.Bytes)
		if m := w.ledger.of[d]; m >= 0 {
			if free := report.Memories[m].Free; use.Free < 0 || free >= 0 && free < use.Free {
				use.Free = free
			}
		}
		if share := use.Seconds / report.Round; share > 0 { // not where nothing takes time, or all too much
			use.Share = share
		}
	}
	return report, nil
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
	overhead, err := w.overhead()
	use.Bytes, use.Seconds = plus(w.bytes, overhead), w.seconds
	return err
}

// left is what is free of a budget; -1: it is no limit.
func left(budget, bytes int64) int64 {
	if budget < 0 {
		return -1
	}
	return max(0, budget-bytes)
}
