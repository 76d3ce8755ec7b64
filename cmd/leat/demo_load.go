package main

import "time"

// coreLoad measures how much of some cores' time other programs take.
type coreLoad struct {
	cores []int
	spans time.Duration // measured so far
	taken time.Duration // by others, of all these cores together
	known bool
}

// processorTime is how long cores have worked, and how long this process has.
type processorTime struct {
	at       time.Time
	all, own time.Duration
}

// begin reads the cores' time. What it returns is for end.
func (l *coreLoad) begin() (p processorTime, ok bool) {
	if len(l.cores) == 0 {
		return p, false
	}
	return readProcessorTime(l.cores)
}

// end adds what others took since begin.
func (l *coreLoad) end(before processorTime, ok bool) {
	if !ok {
		return
	}
	now, ok := readProcessorTime(l.cores)
	if !ok {
		return
	}
	l.known = true
	l.spans += now.at.Sub(before.at)
	l.taken += max(0, now.all-before.all-(now.own-before.own))
}

// others is how many cores' worth of time other programs took, or negative where
// that isn't known.
func (l *coreLoad) others() float64 {
	if !l.known || l.spans <= 0 {
		return -1
	}
	return float64(l.taken) / float64(l.spans)
}
