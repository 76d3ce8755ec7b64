package packer

// Check says what is wrong with runs as a placement of entries: they must hold
// every entry once, in order, each on a device after the run before, within its
// budget, and with the runs before it within their Memory's. What exceeds a
// budget is a *NoFitError, which wraps ErrNoFit, about that run.
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

// walk goes through the devices in order and says what fits.
type walk struct {
	*load         // the run being looked at
	ledger        *ledger
	held, scratch []int64 // what the memories hold: before the run, and with it
}

func newWalk(entries []Entry, devices []Device) *walk {
	w := &walk{load: newLoad(entries, devices), ledger: newLedger(entries, devices, shared(devices))}
	w.held = w.ledger.empty()
	return w
}

// fill adds entries to the run that has begun for as long as it fits, and
// returns the one that doesn't fit; nil: no entry is left.
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

// spill says why the run doesn't fit, as the fault of its last entry; nil: it
// fits.
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

// spilled completes what is known of a spill on a replica from the run.
func (w *walk) spilled(replica int, s Spill) *Spill {
	s.Device = w.replicas[w.Device][replica].label(w.Device)
	if s.Entry = w.entries[w.To-1].Name; s.Entry == "" {
		s.Entry = w.entries[w.To-1].label(w.To - 1)
	}
	s.Run = w.Run
	s.Need, s.Held = w.last, w.bytes-w.last
	return &s
}

// settle leaves the run where it is: its bytes are held from here on.
func (w *walk) settle() {
	sizes, _ := w.sizes()
	w.scratch = w.ledger.with(w.scratch, w.held, w.load, sizes)
	w.held, w.scratch = w.scratch, w.held
}

// tooLong is the error for the run, which doesn't fit, all being why not with its
// last entry: it names the first entry with which it breaks the same budget.
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

// noFit is the error for a first fit that ended with these runs, and with these
// spills, one from each device.
func noFit(entries []Entry, devices []Device, runs []Run, spills []Spill) error {
	last := 0
	for d := range devices {
		if !devices[d].closed() {
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
