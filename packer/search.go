package packer

import (
	"math"
	"slices"
)

// search looks for cuts by dynamic programming. A state is a number of devices
// and a number of entries that stand on them. For each it keeps the labels that
// may lead to the best cut: of two where one is no better, and takes no less of
// any memory, it forgets that one.
type search struct {
	entries []Entry
	devices []Device
	limits  [][]int64 // the most bytes that a run may take on each replica, by device
	room    []int64   // the most bytes that its entries may take there; negative: none at all
	rest    []float64 // seconds that the entries from each on take at least in all
	ledger  *ledger   // of the memories that are watched
	least   float64   // no cut has a slowest run below this

	load   *load
	states [][]label // by devices, then by entries
	held   []int64

	// The pass that is under way:
	limit     float64 // the longest time that a run may take
	next      float64 // the least limit above it that may allow more
	whichever bool    // any cut will do
}

// label is one way to place the first entries on the first devices.
type label struct {
	runs    int
	bytes   int64
	squares float64 // the sum of the squares of the runs' times: less is more even
	held    []int64 // what the watched memories hold

	from, index int // it adds the entries from there to the label of that index, in the state of a device fewer
}

// widest is how many labels a state keeps. Without a watched memory there is
// never more than one.
const widest = 32

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
		entries: entries,
		devices: devices,
		limits:  make([][]int64, len(devices)),
		room:    make([]int64, len(devices)),
		rest:    make([]float64, len(entries)+1),
		load:    newLoad(entries, devices),
		states:  make([][]label, (len(devices)+1)*(len(entries)+1)),
	}
	one := make([]label, len(s.states)) // most states have room enough with one label
	for i := range s.states {
		s.states[i] = one[i : i : i+1]
	}
	for i := range devices {
		s.room[i] = math.MaxInt64
		for _, r := range devices[i].replicas() {
			limit := int64(math.MaxInt64)
			if r.Budget >= 0 {
				limit = r.Budget
			}
			if r.Memory != nil && r.Memory.Budget >= 0 {
				limit = min(limit, r.Memory.Budget)
			}
			s.limits[i] = append(s.limits[i], limit)
			s.room[i] = min(s.room[i], limit-r.Overhead)
		}
		if devices[i].closed() {
			s.room[i] = -1
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

// watch makes the search keep to one more memory. It says whether that is new.
func (s *search) watch(m *Memory) bool {
	if m == nil || slices.Contains(s.ledger.memories, m) {
		return false
	}
	s.ledger = newLedger(s.entries, s.devices, append(s.ledger.memories, m))
	return true
}

func (s *search) state(devices, entries int) *[]label {
	return &s.states[devices*(len(s.entries)+1)+entries]
}

// cut returns the best cut of those with no run slower than limit, or whichever
// it finds first; nil: it finds none, nor does it with any limit below next.
func (s *search) cut(limit float64, whichever bool) (runs []Run, next float64, err error) {
	s.limit, s.next, s.whichever = limit, math.Inf(1), whichever
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
		if whichever && len(*s.state(d+1, len(s.entries))) > 0 {
			return s.runs(d + 1), s.next, nil
		}
	}
	return s.runs(len(s.devices)), s.next, nil
}

// extend adds to the labels of one state each run that may follow on its device.
func (s *search) extend(device, from int) error {
	before := *s.state(device, from)
	if len(before) == 0 {
		return nil
	}
	if share := s.rest[from] / float64(len(s.devices)-device) * (1 - noise); share > s.limit {
		s.next = min(s.next, share) // below it, the devices left can't take the rest
		return nil
	}
	l := s.load
	for l.begin(device, from); l.To < len(s.entries); {
		l.add()
		if l.bytes > s.room[device] {
			return nil
		}
		if l.seconds > s.limit {
			s.next = min(s.next, l.seconds)
			return nil
		}
		if err := s.join(before); err != nil {
			return err
		}
	}
	return nil
}

// join adds the run to each of the labels before it.
func (s *search) join(before []label) error {
	l := s.load
	after := s.state(l.Device+1, l.To)
	done := s.state(l.Device+1, len(s.entries))
	alone := len(s.ledger.memories) == 0
	if alone && s.whichever && len(*after) > 0 {
		return nil
	}
	bytes, sizes := l.least(), []int64(nil)
	for i := range before {
		b := &before[i]
		c := label{b.runs + 1, plus(b.bytes, bytes), b.squares + l.seconds*l.seconds, nil, l.From, i}
		// Neither what follows nor the run's own need makes a label better: one
		// that doesn't beat a whole cut now never will.
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

// keep adds c to a state, unless another label there is no worse in any way, and
// drops those that are no better than c in any. A full state takes no more.
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

func (s *search) beaten(state []label, c *label) bool {
	for i := range state {
		if s.noWorse(&state[i], c) {
			return true
		}
	}
	return false
}

// noWorse says that whatever may follow b may follow a, and is as good there.
func (s *search) noWorse(a, b *label) bool {
	if !s.whichever && b.betterThan(a) {
		return false
	}
	for i, held := range a.held { // none, where all entries are placed
		if held > b.held[i] {
			return false
		}
	}
	return true
}

// runs returns the cut that the first label of the last state stands for, which
// has these devices and all entries; nil: there is none.
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
