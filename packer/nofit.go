package packer

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoFit says that the entries don't fit the budgets.
var ErrNoFit = errors.New("the model doesn't fit")

// NoFitError says where a placement ended without room: on the last device that
// takes anything. It wraps ErrNoFit.
type NoFitError struct {
	Spill          // what had no room there
	Rest   int     // how many entries follow that one
	InAll  int64   // bytes that are short with all of those on that device too, at least Spill's
	Before []Spill // what ended the run on each device before, in order
}

// Error implements error, in plain bytes.
func (e *NoFitError) Error() string {
	return ErrNoFit.Error() + ": " + e.Describe(func(bytes int64) string { return fmt.Sprintf("%d bytes", bytes) })
}

// Unwrap returns ErrNoFit.
func (e *NoFitError) Unwrap() error { return ErrNoFit }

// Describe is the error in one line, without ErrNoFit's words, with sizes as
// size writes them.
func (e *NoFitError) Describe(size func(int64) string) string {
	text := e.Spill.Describe(size)
	switch {
	case e.Rest == 1:
		text += fmt.Sprintf(", and %s with the entry after it", size(e.InAll))
	case e.Rest > 1:
		text += fmt.Sprintf(", and %s with the %d entries after it", size(e.InAll), e.Rest)
	}
	return text
}

// Spill is an entry that a device has no room for, and why.
type Spill struct {
	Device, Entry string // their names; "device 0", "entry 0" where they have none
	Run           Run    // the run that it would have ended: Entry is To-1, and the first if it is From too

	Need     int64 // bytes that the entry needs there
	Held     int64 // bytes of the run's entries before it
	Overhead int64 // bytes that the run needs besides its entries
	Others   int64 // bytes of Memory that other runs, and replicas of this one, hold, less what this one shares with them
	Budget   int64 // bytes there are: of Memory, or where that is nil the device's own
	Short    int64 // the other four less Budget; at least 1, which an entry of nothing is short where Budget is 0
	Memory   *Memory
}

// Describe is the spill in one line, with sizes as size writes them.
func (s Spill) Describe(size func(int64) string) string {
	var b strings.Builder
	b.WriteString("device " + strings.TrimPrefix(s.Device, "device "))
	if s.Memory != nil {
		b.WriteString(" in " + s.Memory.Name)
	}
	fmt.Fprintf(&b, ": budget %s, ", size(s.Budget))
	if s.Budget == 0 && s.Need+s.Overhead == 0 {
		b.WriteString("it takes nothing")
		return b.String()
	}
	if s.Others > 0 {
		fmt.Fprintf(&b, "of which others hold %s, ", size(s.Others))
	}
	if s.Run.To-s.Run.From == 1 {
		b.WriteString("its first entry ")
	}
	fmt.Fprintf(&b, "%s needs %s", s.Entry, size(s.Need))
	beside := " beside "
	if s.Held > 0 {
		fmt.Fprintf(&b, "%s%s of the entries before it", beside, size(s.Held))
		beside = " and "
	}
	if s.Overhead > 0 {
		fmt.Fprintf(&b, "%s%s of overhead", beside, size(s.Overhead))
	}
	fmt.Fprintf(&b, ": %s short", size(s.Short))
	return b.String()
}
