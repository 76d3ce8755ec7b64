package packer

import (
	"fmt"
	"math"
)

// Load returns the bytes that a run needs on its device, including the device's overhead, and
// the seconds that it takes for one batch.
//
// The seconds are the sum of each entry's Fixed and PerRow, and of the time to receive the
// OutBytes of the entry before the run at the device's Link. They are for a batch of one row:
// for batches of n rows, the caller multiplies PerRow and OutBytes by n beforehand. For the
// model's first run, nothing is counted for receiving.
//
// The bytes are those of the run alone, summed over all replicas. If another run on the same
// device uses the same weights, each run counts them; Explain reports what their Memory holds
// in total. The arguments must be valid as defined by Check.
func Load(entries []Entry, devices []Device, r Run) (bytes int64, seconds float64) {
	l := newLoad(entries, devices)
	l.set(r)
	sizes, _ := l.sizes()
	return sum(sizes), l.seconds
}

// load computes the bytes and seconds of a run, entry by entry. It has all of this package's
// knowledge of what a run needs.
type load struct {
	entries []Entry
	devices []Device

	replicas [][]Replica // for each device
	size     []int64     // the result of sizes

	Run           // the current run
	bytes   int64 // bytes of the entries alone, in one replica
	last    int64 // the part of bytes that the last entry added
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

// begin makes a run without entries the current run.
func (l *load) begin(device, from int) {
	l.Run = Run{device, from, from}
	l.bytes, l.last, l.seconds = 0, 0, 0
	if from > 0 {
		l.seconds = l.devices[device].Link * float64(l.entries[from-1].OutBytes)
	}
	clear(l.shared)
}

// add adds the next entry to the run.
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

// set makes r the current run.
func (l *load) set(r Run) {
	l.begin(r.Device, r.From)
	for l.To < r.To {
		l.add()
	}
}

// sizes returns the bytes that the run needs on each replica, including what it needs besides
// its entries. The slice is valid until the next call.
func (l *load) sizes() ([]int64, error) {
	l.size = l.size[:0]
	var wrong error
	for i := range l.replicas[l.Device] {
		r := &l.replicas[l.Device][i]
		size := plus(l.bytes, r.Overhead)
		if r.Run != nil {
			bytes := r.Run(l.From, l.To)
			if bytes < 0 && wrong == nil {
				wrong = fmt.Errorf("%s: the Run function returned a negative size for a run of the entries %d to %d: %d bytes",
					r.label(l.Device), l.From, l.To-1, bytes)
			}
			size = plus(size, max(0, bytes))
		}
		l.size = append(l.size, size)
	}
	return l.size, wrong
}

// least returns a lower bound of the bytes that the run needs in all replicas, which doesn't
// call the devices' Run functions.
func (l *load) least() (bytes int64) {
	for i := range l.replicas[l.Device] {
		bytes = plus(bytes, plus(l.bytes, l.replicas[l.Device][i].Overhead))
	}
	return bytes
}

// sum returns the sum of sizes, or MaxInt64 if the sum is larger.
func sum(sizes []int64) (bytes int64) {
	for _, s := range sizes {
		bytes = plus(bytes, s)
	}
	return bytes
}

// plus returns the sum of two sizes, or MaxInt64 if the sum is larger.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
