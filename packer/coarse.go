package packer

import "slices"

// mostCuts is about how many cuts a search considers at once. Its time grows with the square
// of the number.
const mostCuts = 256

// cuts are the positions at which a search may end a run: indices of entries, ascending, from
// 0 to the number of entries. The entries between two consecutive cuts are a group, which the
// search doesn't divide.
type cuts []int

// coarse returns the cuts of the first search. These are all positions if there are at most
// mostCuts; otherwise they are some positions at equal distances, those that make the first
// and the last entry a group each, and those of the given runs.
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

// finer returns cuts for a search that refines the given runs, whose cuts must be in c. Around
// each cut of the runs they are at smaller distances than in c, up to the adjacent cuts in c.
// It returns nil if c has all of these positions already.
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

// groups returns the groups as entries, and devices whose Run functions accept groups. A
// group's costs are the sums of its entries' costs. If a group's entries have different
// shared weights, the sum counts some of these as not shared, so that it is never less than
// the bytes needed.
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

// run returns a device's Run function for groups, given the one for entries.
func (c cuts) run(entries func(from, to int) int64) func(from, to int) int64 {
	if entries == nil {
		return nil
	}
	return func(from, to int) int64 { return entries(c[from], c[to]) }
}

// plus returns the cost of two consecutive entries together.
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

// to converts runs of groups to runs of entries.
func (c cuts) to(runs []Run) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].From, runs[i].To = c[runs[i].From], c[runs[i].To]
	}
	return runs
}

// from converts runs of entries, whose cuts must all be in c, to runs of groups.
func (c cuts) from(runs []Run) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].From, _ = slices.BinarySearch(c, runs[i].From)
		runs[i].To, _ = slices.BinarySearch(c, runs[i].To)
	}
	return runs
}
