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
// The bytes are the run's by itself, in all replicas: where the same weights lie at
// another place of the device too, each run counts them, and Explain says what
// their Memory holds. The arguments are as Check accepts them.
func Load(entries []Entry, devices []Device, r Run) (bytes int64, seconds float64) {
	l := newLoad(entries, devices)
	l.set(r)
	sizes, _ := l.sizes()
	return sum(sizes), l.seconds
}

// load adds up a run entry by entry. All that this package knows of the bytes
// and times of a run is here.
type load struct {
	entries []Entry
	devices []Device

	replicas [][]Replica // of each device
	size     []int64     // what sizes returns

	Run
	bytes   int64 // of the entries alone, in one replica
	last    int64 // of those, what the last entry added
	seconds float64
	shared  map[string]int64 // bytes counted for each shared name
}

func newLoad(entries []Entry, devices []Device) *load {
	l := &load{entries: entries, devices: devices, replicas: make([][]Replica, len(devices)), shared: map[string]int64{}}
	for i := range devices {
		l.replicas[i] = devices[i].replicas()
	}
	return l
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
		counted, shared := l.shared[c.Shared], c.Weights-c.Own
		l.last -= min(counted, shared)
		l.shared[c.Shared] = max(counted, shared)
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

// sizes returns the bytes that the run takes on each replica, all that it needs
// besides its entries included. They are valid until the next call.
func (l *load) sizes() ([]int64, error) {
	l.size = l.size[:0]
	var wrong error
	for i := range l.replicas[l.Device] {
		r := &l.replicas[l.Device][i]
		size := plus(l.bytes, r.Overhead)
		if r.Run != nil {
			bytes := r.Run(l.From, l.To)
			if bytes < 0 && wrong == nil {
				wrong = fmt.Errorf("%s: a run of the entries %d to %d is said to need %d bytes besides them",
					r.label(l.Device), l.From, l.To-1, bytes)
			}
			size = plus(size, max(0, bytes))
		}
		l.size = append(l.size, size)
	}
	return l.size, wrong
}

// least is the bytes that the run takes in all replicas at least.
func (l *load) least() (bytes int64) {
	for i := range l.replicas[l.Device] {
		bytes = plus(bytes, plus(l.bytes, l.replicas[l.Device][i].Overhead))
	}
	return bytes
}

// sum adds up sizes, and stays at the largest.
func sum(sizes []int64) (bytes int64) {
	for _, s := range sizes {
		bytes = plus(bytes, s)
	}
	return bytes
}

// plus adds sizes, and stays at the largest.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
