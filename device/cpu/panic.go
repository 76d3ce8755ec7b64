package cpu

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// PanicError reports that an operation panicked or ended its goroutine.
type PanicError struct {
	Device string // the name of the device
	Value  any    // the argument of panic; nil if the goroutine was ended with runtime.Goexit
	Stack  string // the stack, from the function that panicked on; at most 16 frames
}

const maxFrames = 16

// Error names the device, the value, and the file and line, on one line.
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

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// newPanicError returns the error for a recovered value. It must be called by the deferred
// function that recovered it.
func newPanicError(device string, value any) *PanicError {
	return &PanicError{device, value, trimStack(string(debug.Stack()))}
}

// trimStack shortens a stack in the format of runtime/debug.Stack, in which each frame has
// two lines: the function, and its file and line. It removes the frames above the one that
// panicked, the arguments, and all but the first maxFrames of the remaining frames.
func trimStack(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	first := 1 // the first line has the goroutine's number
	for i, line := range lines {
		// Skip panic and the frames of the runtime that follow it.
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
