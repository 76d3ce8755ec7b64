package packer

import (
	"errors"
	"math"
)

// Balanced divides the entries into contiguous runs, at most one on each device, in the order
// of the devices, so that the time of the slowest run is minimal. In a pipeline that is full,
// that time is the interval between two batches. Load defines the time of a run. A device
// may get no run.
//
// Of partitions whose slowest runs differ by less than a billionth, Balanced prefers the one
// with the fewest runs; then the one whose runs have the fewest bytes in total, as counted by
// Load; then the one with the least sum of squared times, which is the most even one; and
// then the one with the fewest entries on the last device, on the one before the last, and so
// on.
//
// Budgets and memories are respected as in FirstFit. If FirstFit finds a partition, Balanced
// finds one that is at least as fast.
//
// The partition is optimal, with two exceptions. First, if a Memory's budget limits the
// runs, there may be many partitions of the first entries among the first devices of which
// none is both faster and smaller than another. The search keeps 32 of them; if there are
// more, the result is the best one found. Even so, the slowest run is the fastest possible if
// only one Memory's budget limits the runs and no weights in it are shared. Second, with more
// than 256 entries, the search considers only some of the positions at which runs may end,
// and then refines those that it chose, so that its time grows linearly with the number of
// entries.
//
// The runs are in order, and none is empty. If the entries don't fit, the error is
// FirstFit's, which wraps ErrNoFit.
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

// Fits returns nil if there is a partition within the budgets, and FirstFit's error, which
// wraps ErrNoFit, otherwise. It succeeds whenever Balanced does but, as it ignores times, runs
// in a fraction of Balanced's time.
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

// keeping calls find repeatedly until it returns runs that are within the budgets of all
// memories, and returns these runs. It returns nil if find does.
//
// Considering a memory makes the search slower, even if its budget does not limit the runs.
// So the first search considers no memory, and each further one also considers the memory
// whose budget the previous result exceeded.
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
		if broken := (*NoFitError)(nil); !errors.As(err, &broken) || !s.consider(broken.Memory) {
			return nil, err
		}
	}
}

// best returns the best partition within the budgets of the devices and of the memories
// considered, or nil if it finds none. If first is not nil, it must be a partition that fits,
// and the result is at least as fast.
func (s *search) best(first []Run) ([]Run, error) {
	fast := first
	if fast == nil {
		var err error
		if fast, _, err = s.cut(math.Inf(1), true); fast == nil || err != nil {
			return nil, err
		}
	}
	// The minimal time of the slowest run is between s.least and its time in the best
	// partition known. Finding whether there is any partition within a limit is fast. If
	// there is none, the time of the fastest run that exceeded the limit is the new lower
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
	// The other criteria need a separate pass: whether a partition of the first entries
	// with a faster slowest run is better than one with fewer runs depends on the
	// remaining runs.
	runs, _, err := s.cut(known*(1+noise), false)
	if runs == nil {
		runs = fast
	}
	return runs, err
}

// noise is the relative difference below which two times are considered equal. Sums of the
// same times in a different order differ in their last digits, which must not make the
// result use one more device.
const noise = 1e-9

// between returns a limit that is at least low and less than high, which must be positive. It
// bisects the bit patterns of the floating-point numbers instead of their values, so that a
// search ends after at most 64 steps for any two numbers.
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
