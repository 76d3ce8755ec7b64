package packer

// FirstFit fills the devices one after another. It walks the entries in forward
// order with a cursor on the devices that only moves forward: an entry goes to
// the cursor's device if the run there fits with it, exactly or with room to
// spare, else the cursor moves on. So each device gets one run at most, and what
// follows an entry that came to the last device comes there too.
//
// A run holds its device's Overhead, what its Run says, and the Weights and
// State of its entries, Weights under one Shared name once. It must be within
// the device's budget, and with the runs before it within their Memory's; the same
// goes for its replicas. A device whose budget is 0 is passed over.
//
// Where no device has a Memory, and no longer run needs less, FirstFit finds a
// cut within the budgets if there is one: a run never needs more for leaving its
// first entries to an earlier device. Else Balanced may find one where FirstFit
// doesn't.
//
// The runs are in order, none empty. Entries that don't fit are a *NoFitError,
// which wraps ErrNoFit. Times play no part.
func FirstFit(entries []Entry, devices []Device) ([]Run, error) {
	if err := validate(entries, devices); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, nil
	}
	var runs []Run
	var spills []Spill
	w := newWalk(entries, devices)
	from := 0
	for d := range devices {
		w.begin(d, from)
		spill, err := w.fill()
		if err != nil {
			return nil, err
		}
		if w.To > from {
			runs = append(runs, w.Run)
			from = w.To
			w.settle()
		}
		if spill == nil {
			return runs, nil
		}
		spills = append(spills, *spill)
	}
	return nil, noFit(entries, devices, runs, spills)
}
