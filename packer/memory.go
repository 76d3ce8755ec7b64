package packer

import "slices"

// ledger computes what runs use of the memories that several devices have in common.
//
// The use of the memories by some runs is a vector: first the bytes used in each memory, then,
// for each tie, the negated bytes of its weights that are loaded already. So if each element
// of one vector is at most that of another, the first leaves at least as much memory for any
// runs that follow.
type ledger struct {
	memories []*Memory
	of       [][]int     // for each device and replica, the index of its memory; -1 if not in memories
	tied     map[tie]int // the index in the vector
}

// tie identifies shared weights that several runs on one device use and that are loaded once.
type tie struct {
	memory         *Memory
	device, shared string // the device's name, and the name of the weights
}

// newLedger returns a ledger of the given memories, which must be distinct and not nil.
func newLedger(entries []Entry, devices []Device, memories []*Memory) *ledger {
	g := &ledger{memories: memories, of: make([][]int, len(devices)), tied: map[tie]int{}}
	positions := map[tie]int{} // how often a device appears; the keys have no shared name
	for i := range devices {
		for _, r := range devices[i].replicas() {
			m := slices.Index(memories, r.Memory)
			g.of[i] = append(g.of[i], m)
			if m >= 0 && r.Name != "" {
				positions[tie{memory: r.Memory, device: r.Name}]++
			}
		}
	}
	for i := range devices {
		for _, r := range devices[i].replicas() {
			if positions[tie{memory: r.Memory, device: r.Name}] < 2 {
				continue
			}
			for _, e := range entries {
				t := tie{r.Memory, r.Name, e.Costs[i].Shared}
				if _, known := g.tied[t]; t.shared != "" && !known {
					g.tied[t] = len(memories) + len(g.tied)
				}
			}
		}
	}
	return g
}

// memoriesOf returns the memories of the devices, each once.
func memoriesOf(devices []Device) []*Memory {
	var memories []*Memory
	for i := range devices {
		for _, r := range devices[i].replicas() {
			if r.Memory != nil && !slices.Contains(memories, r.Memory) {
				memories = append(memories, r.Memory)
			}
		}
	}
	return memories
}

// empty returns the vector of no runs.
func (g *ledger) empty() []int64 { return make([]int64, len(g.memories)+len(g.tied)) }

// with returns the vector held plus l's run, whose bytes on each replica are sizes. It uses
// dst's memory for the result.
func (g *ledger) with(dst, held []int64, l *load, sizes []int64) []int64 {
	dst = append(dst[:0], held...)
	for i, bytes := range sizes {
		m := g.of[l.Device][i]
		if m < 0 {
			continue
		}
		if len(g.tied) > 0 {
			for name, weights := range l.shared {
				if t, ok := g.tied[tie{g.memories[m], l.replicas[l.Device][i].Name, name}]; ok {
					bytes -= min(weights, -dst[t])
					dst[t] = min(dst[t], -weights)
				}
			}
		}
		dst[m] = plus(dst[m], bytes)
	}
	return dst
}

// within reports whether the vector is within each memory's budget.
func (g *ledger) within(held []int64) bool {
	for i, m := range g.memories {
		if m.Budget >= 0 && held[i] > m.Budget {
			return false
		}
	}
	return true
}
