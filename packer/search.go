package packer

import (
	"math"
	"slices"
)

// search finds partitions by dynamic programming. A state is a pair of numbers: the first
// devices, and the first entries, which are assigned to these devices. For each state the
// search keeps a set of labels, each a partition of these entries that may lead to the best
// partition of all. It drops a label if another one is at least as good and uses no more of
// any memory.
type search struct {
	entries  []Entry
	devices  []Device
	limits   [][]int64 // for each device and replica, the maximum bytes of a run
	capacity []int64   // for each device, the maximum bytes of a run's entries; negative if it can't have a run
	rest     []float64 // for each entry, a lower bound of the seconds of this entry and all after it
	ledger   *ledger   // of the memories considered
	least    float64   // a lower bound of the slowest run's time

	load   *load
	states [][]label // indexed by devices, then by entries
	held   []int64   // scratch of extendAll

	// The fields below belong to the current call of cut.
	limit float64 // the maximum time of a run
	next  float64 // the smallest larger limit that may allow more partitions
	any   bool    // whether any partition will do
}

// label is a partition of the first entries among the first devices.
type label struct {
	runs    int
	bytes   int64
	squares float64 // the sum of the squares of the runs' times, which is smaller for more even times
	held    []int64 // the use of the memories considered, as a vector of the ledger

	// The last device has the run from entry from on. The runs before it are those of the
	// label with that index in the state of one device less and from entries.
	from, index int
}

// widest is the maximum number of labels in a state. Without a memory to consider, a state
// never has more than one.
const widest = 32

// betterThan compares two labels of a state by Balanced's criteria.
func (a *label) betterThan(b *label) bool {
	switch {
	case a.runs != b.runs:
		return a.runs < b.runs
	case a.bytes != b.bytes:
		return a.bytes < b.bytes
	case a.squares < b.squares*(1-noise):
		return true
	case b.squares < a.squares*(1-noise):
		return false
	}
	return a.from > b.from
}

func newSearch(entries []Entry, devices []Device) *search {
	s := &search{
		entries:  entries,
		devices:  devices,
		limits:   make([][]int64, len(devices)),
		capacity: make([]int64, len(devices)),
		rest:     make([]float64, len(entries)+1),
		load:     newLoad(entries, devices),
		states:   make([][]label, (len(devices)+1)*(len(entries)+1)),
	}
	one := make([]label, len(s.states)) // memory for one label in each state, which is enough for most
	for i := range s.states {
		s.states[i] = one[i : i : i+1]
	}
	for i := range devices {
		s.capacity[i] = math.MaxInt64
		for _, r := range devices[i].replicas() {
			limit := int64(math.MaxInt64)
			if r.Budget >= 0 {
				limit = r.Budget
			}
			if r.Memory != nil && r.Memory.Budget >= 0 {
				limit = min(limit, r.Memory.Budget)
			}
			s.limits[i] = append(s.limits[i], limit)
			s.capacity[i] = min(s.capacity[i], limit-r.Overhead)
		}
		if devices[i].unusable() {
			s.capacity[i] = -1
		}
	}
	for e := len(entries) - 1; e >= 0; e-- {
		fastest := math.Inf(1)
		for _, c := range entries[e].Costs {
			fastest = min(fastest, c.Fixed+c.PerRow)
		}
		s.rest[e] = s.rest[e+1] + fastest
		s.least = max(s.least, fastest)
	}
	s.ledger = newLedger(entries, devices, nil)
	return s
}

// consider makes the search respect the budget of one more memory. It returns false if m is
// nil or was considered already.
func (s *search) consider(m *Memory) bool {
	if m == nil || slices.Contains(s.ledger.memories, m) {
		return false
	}
	s.ledger = newLedger(s.entries, s.devices, append(s.ledger.memories, m))
	return true
}

// state returns the labels of a state.
func (s *search) state(devices, entries int) *[]label {
	return &s.states[devices*(len(s.entries)+1)+entries]
}

// cut returns the best partition in which no run's time exceeds limit, or, if any is true, the
// first one that it finds. If there is none, it returns nil, and there is none for any limit
// below next either.
func (s *search) cut(limit float64, any bool) (runs []Run, next float64, err error) {
	s.limit, s.next, s.any = limit, math.Inf(1), any
	for i := range s.states {
		s.states[i] = s.states[i][:0]
	}
	*s.state(0, 0) = append(*s.state(0, 0), label{held: s.ledger.empty()})
	for d := range s.devices {
		for entries := range len(s.entries) + 1 {
			without := s.state(d+1, entries)
			for i, l := range *s.state(d, entries) {
				l.from, l.index = entries, i
				*without = append(*without, l)
			}
		}
		for from := range s.entries {
			if err := s.extend(d, from); err != nil {
				return nil, 0, err
			}
		}
		if any && len(*s.state(d+1, len(s.entries))) > 0 {
			return s.runs(d + 1), s.next, nil
		}
	}
	return s.runs(len(s.devices)), s.next, nil
}

// extend extends the labels of one state by each run, from the given entry on, that is
// possible on the device.
func (s *search) extend(device, from int) error {
	before := *s.state(device, from)
	if len(before) == 0 {
		return nil
	}
	// The slowest of the remaining runs takes at least the average of the devices left.
	if average := s.rest[from] / float64(len(s.devices)-device) * (1 - noise); average > s.limit {
		s.next = min(s.next, average)
		return nil
	}
	l := s.load
	for l.begin(device, from); l.To < len(s.entries); {
		l.add()
		if l.bytes > s.capacity[device] {
			return nil
		}
		if l.seconds > s.limit {
			s.next = min(s.next, l.seconds)
			return nil
		}
		if err := s.extendAll(before); err != nil {
			return err
		}
	}
	return nil
}

// extendAll extends each of the labels by the load's current run.
func (s *search) extendAll(before []label) error {
	l := s.load
	after := s.state(l.Device+1, l.To)
	done := s.state(l.Device+1, len(s.entries))
	alone := len(s.ledger.memories) == 0
	if alone && s.any && len(*after) > 0 {
		return nil
	}
	bytes, sizes := l.least(), []int64(nil)
	for i := range before {
		b := &before[i]
		c := label{b.runs + 1, plus(b.bytes, bytes), b.squares + l.seconds*l.seconds, nil, l.From, i}
		// Further runs, and what this run needs besides its entries, only make a label
		// worse. So a label that is not better than a complete partition now never is.
		if s.beaten(*done, &c) || alone && s.beaten(*after, &c) {
			continue
		}
		if sizes == nil {
			var err error
			if sizes, err = l.sizes(); err != nil {
				return err
			}
			for i, limit := range s.limits[l.Device] {
				if sizes[i] > limit {
					return nil
				}
			}
			bytes = sum(sizes)
		}
		c.bytes = plus(b.bytes, bytes)
		s.held = s.ledger.with(s.held, b.held, l, sizes)
		if !s.ledger.within(s.held) {
			continue
		}
		if l.To < len(s.entries) {
			c.held = s.held
		}
		s.keep(after, c)
	}
	return nil
}

// keep adds c to a state and drops the labels that are not better than c in any respect. It
// does not add c if a label in the state is at least as good in every respect, or if the
// state is full.
func (s *search) keep(state *[]label, c label) {
	if s.beaten(*state, &c) {
		return
	}
	kept := (*state)[:0]
	for i := range *state {
		if a := &(*state)[i]; !s.noWorse(&c, a) {
			kept = append(kept, *a)
		}
	}
	if len(kept) < widest {
		c.held = slices.Clone(c.held)
		kept = append(kept, c)
	}
	*state = kept
}

// beaten reports whether a label of the state is at least as good as c in every respect.
func (s *search) beaten(state []label, c *label) bool {
	for i := range state {
		if s.noWorse(&state[i], c) {
			return true
		}
	}
	return false
}

// noWorse reports whether a is at least as good as b, and leaves at least as much of every
// memory to the runs that follow.
func (s *search) noWorse(a, b *label) bool {
	if !s.any && b.betterThan(a) {
		return false
	}
	for i, held := range a.held { // empty if all entries are placed
		if held > b.held[i] {
			return false
		}
	}
	return true
}

// runs returns the partition of the first label in the state of the given devices and all
// entries, or nil if that state has no label.
func (s *search) runs(devices int) []Run {
	entries, index := len(s.entries), 0
	if len(*s.state(devices, entries)) == 0 {
		return nil
	}
	var runs []Run
	for d := devices; d > 0; d-- {
		l := (*s.state(d, entries))[index]
		if l.from < entries {
			runs = append(runs, Run{d - 1, l.from, entries})
		}
		entries, index = l.from, l.index
	}
	slices.Reverse(runs)
	return runs
}
