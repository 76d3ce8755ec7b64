package packer

// Check returns an error unless the runs are a valid placement of the entries: together they
// must contain every entry once, in order; each must be on a later device than the run before,
// within the budget of that device and, together with the runs before, within the budget of
// the device's Memory. If a budget is exceeded, the error is a *NoFitError, which wraps
// ErrNoFit, about the first run that exceeds it.
func Check(entries []Entry, devices []Device, runs []Run) error {
	if err := validate(entries, devices); err != nil {
		return err
	}
	if err := wellFormed(entries, devices, runs); err != nil {
		return err
	}
	w := newWalk(entries, devices)
	for _, r := range runs {
		w.set(r)
		spill, err := w.spill()
		if err != nil {
			return err
		}
		if spill != nil {
			return w.tooLong(spill)
		}
		w.settle()
	}
	return nil
}

// walk tests runs against budgets, in the order of the devices.
type walk struct {
	*load         // the current run
	ledger        *ledger
	held, scratch []int64 // the use of the memories by the runs before, and including the current run
}

func newWalk(entries []Entry, devices []Device) *walk {
	w := &walk{load: newLoad(entries, devices), ledger: newLedger(entries, devices, memoriesOf(devices))}
	w.held = w.ledger.empty()
	return w
}

// fill adds entries to the current run as long as it fits. It returns the spill of the first
// entry that doesn't fit, or nil if no entries are left.
func (w *walk) fill() (*Spill, error) {
	for w.To < len(w.entries) {
		w.add()
		spill, err := w.spill()
		if err != nil {
			return nil, err
		}
		if spill != nil {
			w.set(Run{w.Device, w.From, w.To - 1})
			return spill, nil
		}
	}
	return nil, nil
}

// spill returns the reason why the current run doesn't fit, attributed to its last entry, or
// nil if the run fits.
func (w *walk) spill() (*Spill, error) {
	sizes, err := w.sizes()
	if err != nil {
		return nil, err
	}
	replicas := w.replicas[w.Device]
	for i, r := range replicas {
		if bytes := sizes[i]; r.Budget == 0 || r.Budget > 0 && bytes > r.Budget {
			return w.spilled(i, Spill{Overhead: bytes - w.bytes, Budget: r.Budget, Short: max(1, bytes-r.Budget)}), nil
		}
	}
	w.scratch = w.ledger.with(w.scratch, w.held, w.load, sizes)
	for i, r := range replicas {
		if r.Memory == nil || r.Memory.Budget < 0 {
			continue
		}
		if all := w.scratch[w.ledger.of[w.Device][i]]; all > r.Memory.Budget {
			return w.spilled(i, Spill{
				Overhead: sizes[i] - w.bytes,
				Others:   all - sizes[i],
				Budget:   r.Memory.Budget,
				Short:    all - r.Memory.Budget,
				Memory:   r.Memory,
			}), nil
		}
	}
	return nil, nil
}

// spilled returns s with the fields set that describe the current run and the replica.
func (w *walk) spilled(replica int, s Spill) *Spill {
	s.Device = w.replicas[w.Device][replica].label(w.Device)
	if s.Entry = w.entries[w.To-1].Name; s.Entry == "" {
		s.Entry = w.entries[w.To-1].label(w.To - 1)
	}
	s.Run = w.Run
	s.Need, s.Held = w.last, w.bytes-w.last
	return &s
}

// settle adds the current run to those that the memories hold.
func (w *walk) settle() {
	sizes, _ := w.sizes()
	w.scratch = w.ledger.with(w.scratch, w.held, w.load, sizes)
	w.held, w.scratch = w.scratch, w.held
}

// tooLong returns the error for the current run, which doesn't fit; all is its spill. The
// error names the first entry with which the run exceeds the same budget.
func (w *walk) tooLong(all *Spill) error {
	r, first := w.Run, all
	w.begin(r.Device, r.From)
	for first == all && w.To < r.To {
		w.add()
		spill, err := w.spill()
		if err != nil {
			return err
		}
		if spill != nil && spill.Memory == all.Memory && spill.Device == all.Device {
			first = spill
		}
	}
	return &NoFitError{Spill: *first, Rest: r.To - first.Run.To, InAll: max(first.Short, all.Short)}
}

// noFit returns FirstFit's error. runs are the runs that it made, and spills has one spill for
// each device.
func noFit(entries []Entry, devices []Device, runs []Run, spills []Spill) error {
	last := 0
	for d := range devices {
		if !devices[d].unusable() {
			last = d
		}
	}
	e := &NoFitError{Spill: spills[last], Rest: len(entries) - spills[last].Run.To, InAll: spills[last].Short, Before: spills[:last]}
	w := newWalk(entries, devices)
	for _, r := range runs {
		if r.Device < last {
			w.set(r)
			w.settle()
		}
	}
	w.set(Run{last, e.Run.From, len(entries)})
	all, err := w.spill()
	if all != nil {
		e.InAll = max(e.InAll, all.Short)
	}
	if err != nil {
		return err
	}
	return e
}
