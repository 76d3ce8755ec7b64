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
// The bytes are the run's by itself: where the same weights lie at another place
// of the device too, each run counts them, and Explain says what their Memory
// holds. The arguments are as Check accepts them.
func Load(entries []Entry, devices []Device, r Run) (bytes int64, seconds float64) {
	l := newLoad(entries, devices)
	l.set(r)
	overhead, _ := l.overhead()
	return plus(l.bytes, overhead), l.seconds
}

// load adds up a run entry by entry. All that this package knows of the bytes
// and times of a run is here.
type load struct {
	entries []Entry
	devices []Device

	Run
	bytes   int64 // of the entries alone
	last    int64 // of those, what the last entry added
	seconds float64
	shared  map[string]int64 // bytes counted for each shared name
}

func newLoad(entries []Entry, devices []Device) *load {
	return &load{entries: entries, devices: devices, shared: map[string]int64{}}
}

// begin starts a run that has no entry yet.
func (l *load) begin(device, from int) {
	l.Run = Run{device, from, from}
	l.bytes, l.last, l.seconds = 0, 0, 0
	if from > 0 {
		l.seconds = l.devices[device].Link * float64(l.entries[from-1].OutBytes)
	}
	clear(l.shared)
}

// add gives the run its next entry.
func (l *load) add() {
	c := &l.entries[l.To].Costs[l.Device]
	l.To++
	l.last = c.Weights + c.State
	if c.Shared != "" {
		// Entries may have weights of their own beside the shared ones (a tied
		// head and its norm): the largest of a name counts.
		counted := l.shared[c.Shared]
		l.last -= min(counted, c.Weights)
		l.shared[c.Shared] = max(counted, c.Weights)
	}
	l.bytes += l.last
	l.seconds += c.Fixed + c.PerRow
}

// set makes it the load of r.
func (l *load) set(r Run) {
	l.begin(r.Device, r.From)
	for l.To < r.To {
		l.add()
	}
}

// overhead returns the bytes that the run needs besides its entries.
func (l *load) overhead() (int64, error) {
	d := &l.devices[l.Device]
	if d.Run == nil {
		return d.Overhead, nil
	}
	bytes := d.Run(l.From, l.To)
	if bytes < 0 {
		return d.Overhead, fmt.Errorf("%s: a run of the entries %d to %d is said to need %d bytes besides them",
			d.label(l.Device), l.From, l.To-1, bytes)
	}
	return plus(d.Overhead, bytes), nil
}

// plus adds sizes, and stays at the largest.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
