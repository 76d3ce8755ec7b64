package packer

import (
	"errors"
	"math"
)

// Balanced cuts the entries into contiguous runs, at most one on each device, in
// the order of the devices, so that the slowest run takes the least time. In a
// pipeline that is full, that time is the interval between two batches. Load
// defines the time of a run. A device may get no run.
//
// Among cuts whose slowest runs are equal to within a billionth, Balanced prefers
// the one with the fewest runs; then the one whose runs hold the fewest bytes in
// all, as Load counts them; then the one with the least sum of squared times,
// which is the most even one; and then the one with the fewest entries on the last
// device, on the last but one, and so on.
//
// Budgets and memories are kept as in FirstFit. If FirstFit finds a cut, then
// Balanced finds one that is at least as fast.
//
// The cut is the best one, with two exceptions. First, if a Memory binds, there
// may be many ways to place the first entries on the first devices of which none
// is both faster and smaller than another. The search keeps 32 of them; beyond
// that the cut is the best that was found. Even so the slowest run is the fastest
// possible if one Memory binds and no weights are tied there. Second, of more
// than 256 entries the search considers only some of the places to cut, and then
// refines those that it chose, so that its time grows linearly with the entries.
//
// The runs are in order, none empty. If the entries don't fit, the error is that
// of FirstFit, which wraps ErrNoFit.
func Balanced(entries []Entry, devices []Device) ([]Run, error) {
	runs, noFit := FirstFit(entries, devices)
	if len(entries) == 0 || noFit != nil && !errors.Is(noFit, ErrNoFit) {
		return nil, noFit
	}
	for c := coarse(len(entries), runs); c != nil; c = c.finer(runs) {
		groups, grouped := c.groups(entries, devices)
		better, err := keeping(groups, grouped, func(s *search) ([]Run, error) { return s.best(c.from(runs)) })
		switch {
		case err != nil && !errors.Is(err, ErrNoFit):
			return nil, err
		case better != nil:
			runs = c.to(better)
		case runs == nil:
			return nil, noFit
		}
	}
	return runs, nil
}

// Fits returns nil if there is a cut within the budgets and memories, and else the
// error of FirstFit, which wraps ErrNoFit. It finds what Balanced finds, but
// ignores times, and so takes a fraction of Balanced's time.
func Fits(entries []Entry, devices []Device) error {
	_, noFit := FirstFit(entries, devices)
	if noFit == nil || !errors.Is(noFit, ErrNoFit) {
		return noFit
	}
	groups, grouped := coarse(len(entries), nil).groups(entries, devices)
	runs, err := keeping(groups, grouped, func(s *search) ([]Run, error) {
		runs, _, err := s.cut(math.Inf(1), true)
		return runs, err
	})
	if runs == nil && (err == nil || errors.Is(err, ErrNoFit)) {
		return noFit
	}
	return err
}

// keeping returns the runs that find finds such that all memories are kept; nil if
// it finds none.
//
// A memory that doesn't bind only makes the search longer. So the search begins
// with none of them and takes up one after another, as the cut that was found
// turns out to exceed them.
func keeping(entries []Entry, devices []Device, find func(*search) ([]Run, error)) ([]Run, error) {
	s := newSearch(entries, devices)
	for {
		runs, err := find(s)
		if runs == nil || err != nil {
			return nil, err
		}
		err = Check(entries, devices, runs)
		if err == nil {
			return runs, nil
		}
		if broken := (*NoFitError)(nil); !errors.As(err, &broken) || !s.watch(broken.Memory) {
			return nil, err
		}
	}
}

// best returns the best cut within the budgets and the watched memories, nil if
// it finds none. If first isn't nil, it is a cut that fits, and best finds one that
// is no slower.
func (s *search) best(first []Run) ([]Run, error) {
	fast := first
	if fast == nil {
		var err error
		if fast, _, err = s.cut(math.Inf(1), true); fast == nil || err != nil {
			return nil, err
		}
	}
	// The least time of the slowest run lies between s.least and what it takes in
	// a cut that is known. It is quick to find whether there is any cut below a
	// limit. If there is none, the shortest run that was too slow is the new lower
	// bound.
	known := s.slowest(fast)
	for s.least < known {
		runs, next, err := s.cut(between(s.least, known), true)
		if err != nil {
			return nil, err
		}
		if runs == nil {
			s.least = next
			continue
		}
		fast, known = runs, s.slowest(runs)
	}
	// The other criteria take a pass of their own: which of two beginnings is
	// better, one with a faster slowest run or one with fewer runs, depends on
	// what follows.
	runs, _, err := s.cut(known*(1+noise), false)
	if runs == nil {
		runs = fast
	}
	return runs, err
}

// noise is the relative difference up to which two times count as equal. The same
// times added in another order differ in their last digits, and that must not
// cost a device more.
const noise = 1e-9

// between returns a limit from low to just below high. It halves the floating-point
// numbers between the two rather than their distance, so that a search ends after
// at most 64 halvings whatever the two are.
func between(low, high float64) float64 {
	a, b := math.Float64bits(low), math.Float64bits(high)
	return math.Float64frombits(a + (b-a)/2)
}

// slowest returns the time of the slowest run.
func (s *search) slowest(runs []Run) (seconds float64) {
	for _, r := range runs {
		s.load.set(r)
		seconds = max(seconds, s.load.seconds)
	}
	return seconds
}
