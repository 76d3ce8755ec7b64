package packer

import (
	"fmt"
	"math"
)

// Load returns what a run is for its device: the bytes it holds there, the
// device's overhead included, and the seconds that a batch takes there.
//
// The seconds are the Fixed and PerRow of each entry, and the Link of the device
// for the OutBytes of the entry before the run, which are received. That is for
// a batch of one row: for a typical batch of n rows, a caller makes PerRow and
// OutBytes those of n rows beforehand. The model's first run receives nothing
// that counts.
//
// The arguments are as Check accepts them.
func Load(entries []Entry, devices []Device, r Run) (bytes int64, seconds float64) {
	l := newLoad(entries, devices)
	l.begin(r.Device, r.From)
	for e := r.From; e < r.To; e++ {
		l.add(e)
	}
	return l.bytes, l.seconds
}

// load adds up a run entry by entry. All that this package knows of bytes and
// times is here.
type load struct {
	entries []Entry
	devices []Device

	device  int
	bytes   int64
	seconds float64
	shared  map[string]int64 // bytes counted for each shared name
}

func newLoad(entries []Entry, devices []Device) *load {
	return &load{entries: entries, devices: devices, shared: map[string]int64{}}
}

// begin starts a run that has no entry yet.
func (l *load) begin(device, from int) {
	d := l.devices[device]
	l.device, l.bytes, l.seconds = device, d.Overhead, 0
	if from > 0 {
		l.seconds = d.Link * float64(l.entries[from-1].OutBytes)
	}
	clear(l.shared)
}

// need returns the bytes that one more entry would take.
func (l *load) need(entry int) int64 {
	c := &l.entries[entry].Costs[l.device]
	if c.Shared == "" {
		return c.Weights + c.State
	}
	// Entries may have weights of their own beside the shared ones (a tied head
	// and its norm): the largest of a name counts.
	return max(0, c.Weights-l.shared[c.Shared]) + c.State
}

// add puts the entry on the device.
func (l *load) add(entry int) {
	l.bytes += l.need(entry)
	c := &l.entries[entry].Costs[l.device]
	l.seconds += c.Fixed + c.PerRow
	if c.Shared != "" {
		l.shared[c.Shared] = max(l.shared[c.Shared], c.Weights)
	}
}

// over returns by how many bytes the run exceeds its device's budget with the
// entry, 0 or less: it fits.
func (l *load) over(entry int) int64 {
	switch budget := l.devices[l.device].Budget; {
	case budget < 0:
		return 0
	case budget == 0:
		return max(1, l.bytes+l.need(entry)) // it takes nothing, not even an entry of no bytes
	default:
		return l.bytes + l.need(entry) - budget
	}
}

// Check says what is wrong with runs as a placement of entries: they must hold
// every entry once, in order, each on a device after the run before, within its
// budget. A run over its budget is an error that wraps ErrNoFit.
func Check(entries []Entry, devices []Device, runs []Run) error {
	if err := validate(entries, devices); err != nil {
		return err
	}
	next, device := 0, -1
	l := newLoad(entries, devices)
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
		l.begin(r.Device, r.From)
		for e := r.From; e < r.To; e++ {
			if over := l.over(e); over > 0 {
				return l.noFit(e, over)
			}
			l.add(e)
		}
		next, device = r.To, r.Device
	}
	if next != len(entries) {
		return fmt.Errorf("the runs end at entry %d of %d", next, len(entries))
	}
	return nil
}

// noFit is the error for an entry that its device has no room for.
func (l *load) noFit(entry int, over int64) error {
	d := l.devices[l.device]
	return fmt.Errorf("%w: %s is %d bytes too large for %s: it needs %d there beside %d, overhead included, and the budget is %d",
		ErrNoFit, l.entries[entry].label(entry), over, d.label(l.device), l.need(entry), l.bytes, d.Budget)
}

// validate says what is wrong with the arguments, so that no sum overflows and
// no index is out of range afterwards.
func validate(entries []Entry, devices []Device) error {
	if len(devices) == 0 {
		return fmt.Errorf("there is no device to place %d entries on", len(entries))
	}
	total := make([]int64, len(devices)) // of all entries on one device
	for i, d := range devices {
		if d.Overhead < 0 || !isTime(d.Link) {
			return fmt.Errorf("%s: an overhead of %d bytes and a link of %g seconds a byte", d.label(i), d.Overhead, d.Link)
		}
		total[i] = d.Overhead
	}
	for i, e := range entries {
		if len(e.Costs) != len(devices) {
			return fmt.Errorf("%s has costs for %d devices, there are %d", e.label(i), len(e.Costs), len(devices))
		}
		if e.OutBytes < 0 {
			return fmt.Errorf("%s hands on %d bytes", e.label(i), e.OutBytes)
		}
		for d, c := range e.Costs {
			switch on := devices[d].label(d); {
			case c.Weights < 0 || c.State < 0:
				return fmt.Errorf("%s on %s: %d bytes of weights and %d of state", e.label(i), on, c.Weights, c.State)
			case !isTime(c.Fixed) || !isTime(c.PerRow):
				return fmt.Errorf("%s on %s: %g seconds a batch and %g a row", e.label(i), on, c.Fixed, c.PerRow)
			case c.Weights > math.MaxInt64-total[d] || c.State > math.MaxInt64-total[d]-c.Weights:
				return fmt.Errorf("%s on %s: the sizes up to here add up to more than 2^63 bytes", e.label(i), on)
			}
			total[d] += c.Weights + c.State
		}
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

func (d Device) label(i int) string {
	if d.Name == "" {
		return fmt.Sprintf("device %d", i)
	}
	return d.Name
}
