package packer

// FirstFit fills the devices one after another. It walks the entries in forward
// order with a cursor on the devices that only moves forward: an entry goes to
// the cursor's device if it fits what the run there has left, exactly or with
// room to spare, else the cursor moves on. So each device gets one run at most,
// and what follows an entry that came to the last device comes there too.
//
// A device holds its Overhead, if it gets an entry at all, and the Weights and
// State of its entries, Weights under one Shared name once. A device whose
// budget is 0 is passed over.
//
// Where any cut into such runs is within the budgets, FirstFit finds one: a run
// never needs more for leaving its first entries to an earlier device.
//
// The runs are in order, none empty. Entries that don't fit are an error that
// wraps ErrNoFit and says which entry has no room on the last device tried, and
// by how much. Times play no part.
func FirstFit(entries []Entry, devices []Device) ([]Run, error) {
	if err := validate(entries, devices); err != nil {
		return nil, err
	}
	var runs []Run
	var noRoom error
	l := newLoad(entries, devices)
	device, from := 0, 0
	l.begin(device, from)
	for e := range entries {
		for over := l.over(e); over > 0; over = l.over(e) {
			if noRoom == nil || devices[device].Budget != 0 {
				noRoom = l.noFit(e, over)
			}
			if e > from {
				runs = append(runs, Run{device, from, e})
				from = e
			}
			if device++; device == len(devices) {
				return nil, noRoom
			}
			l.begin(device, from)
		}
		l.add(e)
	}
	if from < len(entries) {
		runs = append(runs, Run{device, from, len(entries)})
	}
	return runs, nil
}
