package packer

import "slices"

// ledger knows the memories that devices share, and what a run takes there.
//
// What they hold at some moment is a vector: the bytes in each memory, then for
// each tied weight, negative, those of them that lie there already. So of two
// moments, one with less in every place leaves more room for whatever follows.
type ledger struct {
	memories []*Memory
	of       [][]int     // the memory of each replica of a device, by its index; -1: none that is kept here
	tied     map[tie]int // its place in the vector
}

// tie is weights that several places of one device may use, and hold once.
type tie struct {
	memory         *Memory
	device, shared string
}

// newLedger keeps the given memories: none of them is nil or there twice.
func newLedger(entries []Entry, devices []Device, memories []*Memory) *ledger {
	g := &ledger{memories: memories, of: make([][]int, len(devices)), tied: map[tie]int{}}
	places := map[tie]int{} // without a shared name
	for i := range devices {
		for _, r := range devices[i].replicas() {
			m := slices.Index(memories, r.Memory)
			g.of[i] = append(g.of[i], m)
			if m >= 0 && r.Name != "" {
				places[tie{memory: r.Memory, device: r.Name}]++
			}
		}
	}
	for i := range devices {
		for _, r := range devices[i].replicas() {
			if places[tie{memory: r.Memory, device: r.Name}] < 2 {
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

// shared are the memories of the devices, each once.
func shared(devices []Device) []*Memory {
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

// empty is what the memories hold at first.
func (g *ledger) empty() []int64 { return make([]int64, len(g.memories)+len(g.tied)) }

// with returns what they hold once l's run is there too, which takes these bytes
// in each of its replicas. The answer is in dst's memory.
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

// within says whether each memory is within its budget.
func (g *ledger) within(held []int64) bool {
	for i, m := range g.memories {
		if m.Budget >= 0 && held[i] > m.Budget {
			return false
		}
	}
	return true
}
