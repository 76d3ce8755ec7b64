package packer

import (
	"errors"
	"math"
)

// Balanced cuts the entries into contiguous runs, one at most on each device, in
// the order of the devices, so that the slowest run takes the least time: in a
// pipeline that is full, that is the time between two batches. Load says what a
// run's time is. A device may be left without entries.
//
// Of cuts that are equal in that, to a billionth, it takes one with the fewest
// runs; of those the one whose runs take the fewest bytes in all, each as Load
// counts it; of those the one with the least squares of its runs' times, which is
// the most even one; and of those the one with the fewest entries on the last
// device, then on the last but one, and so on.
//
// Budgets and memories are kept as in FirstFit. Where FirstFit finds a cut,
// Balanced does, and none that is slower.
//
// The cut is the best there is, with one exception. Where a Memory binds, there
// may be many ways to place the first entries on the first devices of which none
// is both faster and leaner than another. The search keeps 32 of them, and where
// it meets more, the cut is the best that it found. Even so the slowest run is
// the fastest possible if one Memory binds and no weights are tied there.
//
// The runs are in order, none empty. Entries that don't fit are FirstFit's
// error, which wraps ErrNoFit.
func Balanced(entries []Entry, devices []Device) ([]Run, error) {
	first, noFit := FirstFit(entries, devices)
	if len(entries) == 0 || noFit != nil && !errors.Is(noFit, ErrNoFit) {
		return nil, noFit
	}
	// Memories that don't bind only make the search longer. So they are taken up
	// one after another, as the best cut without them turns out to break them.
	s := newSearch(entries, devices)
	for {
		runs, err := s.best(first)
		if err != nil {
			return nil, err
		}
		if runs == nil {
			return nil, noFit
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
// it finds none. If there is a first fit, it finds one that is no slower.
func (s *search) best(first []Run) ([]Run, error) {
	fast := first
	if fast == nil {
		var err error
		if fast, _, err = s.cut(math.Inf(1), true); fast == nil || err != nil {
			return nil, err
		}
	}
	// The least time of the slowest run lies between two bounds: least, and what
	// it takes in a cut that is known. Whether there is any cut below a limit is
	// quickly said; if there is none, the shortest run that was too slow is the
	// new lower bound.
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
	// The rest of the order takes a pass of its own: which of two beginnings is
	// better, one with a faster slowest run or one with fewer runs, depends on
	// what follows.
	runs, _, err := s.cut(known*(1+noise), false)
	if runs == nil {
		runs = fast
	}
	return runs, err
}

// noise is by how much of themselves times may differ and still be equal: the
// same times added in another order differ in their last digits, and that must
// not cost a device more.
const noise = 1e-9

// between returns a limit from low to just below high. It halves the numbers
// between the two, not their distance, so that a search ends after 64 halvings
// at most whatever the two are.
func between(low, high float64) float64 {
	a, b := math.Float64bits(low), math.Float64bits(high)
	return math.Float64frombits(a + (b-a)/2)
}

// slowest is the time of the slowest run.
func (s *search) slowest(runs []Run) (seconds float64) {
	for _, r := range runs {
		s.load.set(r)
		seconds = max(seconds, s.load.seconds)
	}
	return seconds
}
