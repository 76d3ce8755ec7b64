// Package histogram counts values in buckets of fixed limits: how long requests
// wait, how many rows batches have. Prometheus and a table can both be made from
// what it counts.
package histogram

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram is what values are added to. Its methods may be called from any
// goroutine; Add takes no lock and allocates nothing.
type Histogram[T ~int | ~int64] struct {
	limits []T
	counts []atomic.Uint64
	sum    atomic.Int64
}

// New returns an empty histogram with these limits, which ascend.
func New[T ~int | ~int64](limits []T) *Histogram[T] {
	return &Histogram[T]{limits: slices.Clone(limits), counts: make([]atomic.Uint64, len(limits)+1)}
}

// Add counts a value.
func (h *Histogram[T]) Add(v T) {
	i, _ := slices.BinarySearch(h.limits, v)
	h.counts[i].Add(1)
	h.sum.Add(int64(v))
}

// Snapshot is what has been counted so far. A value added meanwhile may be in one
// of its parts and not yet in another.
func (h *Histogram[T]) Snapshot() Snapshot[T] {
	s := Snapshot[T]{Limits: h.limits, Counts: make([]uint64, len(h.counts)), Sum: T(h.sum.Load())}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// Snapshot is what a histogram had counted at a time. The bucket of a limit has the
// values up to it, itself included, that are above the limit before; a last one
// has what is above all limits.
type Snapshot[T ~int | ~int64] struct {
	Limits []T
	Counts []uint64 // one more than limits
	Sum    T        // of the values
}

// Count is how many values there are.
func (s Snapshot[T]) Count() (n uint64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Mean is the mean of the values, 0 where there are none.
func (s Snapshot[T]) Mean() T {
	n := s.Count()
	if n == 0 {
		return 0
	}
	return s.Sum / T(n)
}

// Quantile estimates the value that a share q of all values, from 0 to 1, doesn't
// exceed: those of a bucket are taken to be spread evenly over it, those above
// all limits to be at the last one. It is 0 where there are no values.
func (s Snapshot[T]) Quantile(q float64) T {
	rank := min(1, max(0, q)) * float64(s.Count())
	var low T
	for i, limit := range s.Limits {
		n := float64(s.Counts[i])
		if n > 0 && rank <= n {
			return low + T(float64(limit-low)*rank/n)
		}
		rank -= n
		low = limit
	}
	if s.Count() == 0 {
		return 0
	}
	return low
}

// Times are limits for times: 1, 2 and 5 times each power of ten, from 10 µs
// to 100 s.
func Times() (limits []time.Duration) {
	for t := 10 * time.Microsecond; t < 100*time.Second; t *= 10 {
		limits = append(limits, t, 2*t, 5*t)
	}
	return append(limits, 100*time.Second)
}

// Rows are limits for the rows of a batch: the powers of two up to 4096.
func Rows() (limits []int) {
	for n := 1; n <= 1<<12; n *= 2 {
		limits = append(limits, n)
	}
	return limits
}
