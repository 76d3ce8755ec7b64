package packer

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoFit means that the entries don't fit within the budgets.
var ErrNoFit = errors.New("the model doesn't fit")

// NoFitError reports that the entries don't fit. It wraps ErrNoFit. From FirstFit, it is about
// the last device with a budget other than 0, where the remaining entries did not fit.
type NoFitError struct {
	Spill          // the entry that did not fit on that device, and why
	Rest   int     // the number of entries after that one
	InAll  int64   // bytes missing to hold that entry and all after it on the device; at least Spill.Short
	Before []Spill // why the run ended on each device before, in order
}

// Error implements error. Sizes are numbers of bytes.
func (e *NoFitError) Error() string {
	return ErrNoFit.Error() + ": " + e.Describe(func(bytes int64) string { return fmt.Sprintf("%d bytes", bytes) })
}

// Unwrap returns ErrNoFit.
func (e *NoFitError) Unwrap() error { return ErrNoFit }

// Describe returns the error's text on one line, without that of ErrNoFit. The function size
// formats sizes in bytes.
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

// Spill describes an entry that doesn't fit on a device, and why.
type Spill struct {
	Device, Entry string // their names, or "device 0" and "entry 0" if they have none
	Run           Run    // the run with that entry, whose index is Run.To-1

	Need     int64   // bytes that the entry adds to the run
	Held     int64   // bytes of the run's entries before it
	Overhead int64   // bytes that the run needs besides its entries
	Others   int64   // bytes in Memory of other runs and of replicas of this run, not counting weights shared with this one
	Budget   int64   // the budget in bytes that is exceeded: Memory's, or the device's if Memory is nil
	Short    int64   // the bytes missing: the sum of the four sizes above minus Budget, and at least 1
	Memory   *Memory // the memory whose budget is exceeded; nil if it is the device's budget
}

// Describe returns the reason on one line. The function size formats sizes in bytes.
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
