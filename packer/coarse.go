package packer

import "slices"

// mostCuts is how many places to cut a search considers at once: its time grows
// with their square.
const mostCuts = 256

// cuts are the places where a search may cut: numbers of entries, ascending, from
// 0 to the number of all entries. The entries between two neighbouring places are
// a group, which the search doesn't divide.
type cuts []int

// coarse returns the cuts to begin with: all, if they aren't too many, else some at
// equal distances, with the first and the last entry in a group each, and those of
// the given runs.
func coarse(entries int, runs []Run) cuts {
	c := cuts{0, 1, entries - 1, entries}
	for i := range min(entries, mostCuts) + 1 {
		c = append(c, i*entries/min(entries, mostCuts))
	}
	for _, r := range runs {
		c = append(c, r.To)
	}
	return c.sorted()
}

// finer returns cuts around those of the given runs, which are among c: at smaller
// distances, and no further away than the neighbours in c. It returns nil if c has
// all of those already.
func (c cuts) finer(runs []Run) cuts {
	each := max(2, mostCuts/2/len(runs)) // on each side of a cut
	f := cuts{0, c[len(c)-1]}
	finer := false
	for _, r := range runs[:len(runs)-1] {
		at, _ := slices.BinarySearch(c, r.To)
		for _, side := range [][2]int{{c[at-1], r.To}, {r.To, c[at+1]}} {
			n := min(each, side[1]-side[0])
			finer = finer || n > 1
			for i := range n + 1 {
				f = append(f, side[0]+i*(side[1]-side[0])/n)
			}
		}
	}
	if !finer {
		return nil
	}
	return f.sorted()
}

func (c cuts) sorted() cuts {
	slices.Sort(c)
	return slices.Compact(c)
}

// groups returns the groups as entries, and the devices for them. A group has the
// sums of its entries' costs. If its entries have different shared weights, it
// counts them as its own, and so at least as many bytes as there are.
func (c cuts) groups(entries []Entry, devices []Device) ([]Entry, []Device) {
	if len(c) == len(entries)+1 {
		return entries, devices
	}
	groups := make([]Entry, len(c)-1)
	costs := make([]Cost, len(groups)*len(devices))
	for g := range groups {
		all := &groups[g]
		*all = entries[c[g+1]-1] // with its OutBytes
		all.Costs = costs[g*len(devices):][:len(devices):len(devices)]
		for d := range devices {
			all.Costs[d] = entries[c[g]].Costs[d]
			for _, e := range entries[c[g]+1 : c[g+1]] {
				all.Costs[d] = all.Costs[d].plus(&e.Costs[d])
			}
		}
	}
	grouped := slices.Clone(devices)
	for d := range grouped {
		at := &grouped[d]
		at.Run = c.run(at.Run)
		at.Also = slices.Clone(at.Also)
		for i := range at.Also {
			at.Also[i].Run = c.run(at.Also[i].Run)
		}
	}
	return groups, grouped
}

// run returns the Run function of a device for groups.
func (c cuts) run(entries func(from, to int) int64) func(from, to int) int64 {
	if entries == nil {
		return nil
	}
	return func(from, to int) int64 { return entries(c[from], c[to]) }
}

// plus returns the cost of two neighbouring entries together.
func (c Cost) plus(next *Cost) Cost {
	sum := Cost{
		Weights: c.Weights + next.Weights,
		State:   c.State + next.State,
		Fixed:   c.Fixed + next.Fixed,
		PerRow:  c.PerRow + next.PerRow,
	}
	switch {
	case c.Shared == "" && next.Shared != "":
		sum.Shared, sum.Own = next.Shared, c.Weights+next.Own
	case c.Shared != "" && next.Shared == "":
		sum.Shared, sum.Own = c.Shared, c.Own+next.Weights
	case c.Shared != "" && c.Shared == next.Shared:
		shared := max(c.Weights-c.Own, next.Weights-next.Own)
		sum.Shared, sum.Own = c.Shared, c.Own+next.Own
		sum.Weights = sum.Own + shared
	}
	return sum
}

// to returns runs of groups as runs of entries.
func (c cuts) to(runs []Run) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].From, runs[i].To = c[runs[i].From], c[runs[i].To]
	}
	return runs
}

// from returns runs of entries, whose cuts are all among c, as runs of groups.
func (c cuts) from(runs []Run) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].From, _ = slices.BinarySearch(c, runs[i].From)
		runs[i].To, _ = slices.BinarySearch(c, runs[i].To)
	}
	return runs
}
