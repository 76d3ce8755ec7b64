// Package goroutine reports whether code runs on one of a set of goroutines. It is for functions
// that wait for goroutines to end, to detect a call from one of these goroutines, which would
// wait for itself. It must not be used for anything else.
package goroutine

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// Set is a set of goroutines. The zero Set is empty and ready to use. Its methods may be called
// from any goroutine.
type Set struct{ ids sync.Map } // the keys are of type uint64, the values struct{}{}

// Enter adds the calling goroutine to the set, until leave is called. It takes about a
// microsecond, and should be called once, at the beginning of the goroutine.
func (s *Set) Enter() (leave func()) {
	id := current()
	s.ids.Store(id, struct{}{})
	return func() { s.ids.Delete(id) }
}

// Current reports whether the calling goroutine is in the set.
func (s *Set) Current() bool {
	_, ok := s.ids.Load(current())
	return ok
}

// current returns the number of the calling goroutine, which is unique in the process. It parses
// the beginning of a stack trace, "goroutine 18 [running]", and returns 0, which is no
// goroutine's number, if the format of traces has changed.
func current() uint64 {
	var trace [64]byte
	fields := bytes.Fields(trace[:runtime.Stack(trace[:], false)])
	if len(fields) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return id
}
