package cpu

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// PanicError is a panic in an operation, caught where it happened.
type PanicError struct {
	Device string
	Value  any    // what the panic was called with; nil: the goroutine was ended
	Stack  string // from the frame that panicked on, at most maxFrames of them
}

const maxFrames = 16

// Error names the device, the value and the place, on one line.
func (e *PanicError) Error() string {
	what := "the goroutine of an operation was ended"
	if e.Value != nil {
		what = fmt.Sprintf("panic: %v", e.Value)
	}
	lines := strings.SplitN(e.Stack, "\n", 3)
	if len(lines) > 1 {
		what += " (" + strings.TrimSpace(lines[1]) + ")"
	}
	return e.Device + ": " + what
}

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// newPanicError is called by the deferred function that recovered the value.
func newPanicError(device string, value any) *PanicError {
	return &PanicError{device, value, trimStack(string(debug.Stack()))}
}

// trimStack leaves out of a stack all that lies above the frame that panicked,
// the arguments, and the frames after the first few. Each frame is two lines:
// the function, and its file and line.
func trimStack(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	first := 1 // after the goroutine's number
	for i, line := range lines {
		// The runtime's own frames stand between panic and the code at fault.
		if strings.HasPrefix(line, "panic(") || strings.HasPrefix(line, "runtime.") && i == first {
			first = i + 2
		}
	}
	if first >= len(lines) {
		first = 1
	}
	lines = lines[first:min(len(lines), first+2*maxFrames)]
	for i, line := range lines {
		if end := strings.LastIndex(line, " +0x"); end > 0 && i%2 == 1 {
			line = line[:end]
		}
		if end := strings.LastIndex(line, "("); end > 0 && i%2 == 0 {
			line = line[:end]
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
