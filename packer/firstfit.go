package packer

// FirstFit fills the devices one after another. It assigns the entries in forward order. An
// entry is assigned to the current device if the run there still fits with that entry;
// otherwise the next device becomes the current one. So each device gets at most one run, and
// FirstFit never returns to an earlier device.
//
// A run needs its device's Overhead, the bytes that the device's Run function returns, and
// the Weights and State of its entries, where Weights with the same Shared name are counted
// once. It must be within the device's budget and, together with the runs before it, within
// the budget of the device's Memory. The same applies to each replica. A device whose budget
// is 0 gets no run.
//
// If no device has a Memory, and a longer run never needs less memory, FirstFit finds a
// partition within the budgets whenever there is one, because moving a run's first entries to
// an earlier device never makes the run larger. Otherwise Balanced may find a partition when
// FirstFit doesn't.
//
// The runs are in order, and none is empty. If the entries don't fit, the error is a
// *NoFitError, which wraps ErrNoFit. FirstFit ignores times.
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
