// Package files opens and creates the files that a command line names.
//
// It gives these promises to every command. No output is written over an input or
// over another output, whatever paths lead to it ([Clash]). A file that is created
// appears whole or not at all, and what a killed process left beside it hinders no
// later one ([Create]). A file that one process writes in place can be locked against
// others ([Lock]). And nothing waits longer than its context: neither the
// opening of a named pipe, nor a read from one, nor a write to a reader that stands
// still ([Await], [Open], [NewWriter]).
//
// The package knows nothing of flags, nor of what the files hold.
package files

import (
	"context"
	"slices"
)

// Standard is the path that stands for standard input or standard output.
const Standard = "-"

// standardOutputs are paths that open what standard output is already. A regular
// file must not be opened a second time through them: each would write from its
// own place.
var standardOutputs = []string{Standard, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}

// IsStandardOutput reports whether a path of an output means standard output.
func IsStandardOutput(path string) bool { return slices.Contains(standardOutputs, path) }

// Await returns what f returns, or the error of ctx if that ends first. In that case
// f goes on by itself, and drop is called with what it returns in the end, unless f
// fails. drop may be nil.
func Await[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	if drop != nil {
		go func() {
			if r := <-done; r.err == nil {
				drop(r.value)
			}
		}()
	}
	var none T
	return none, ctx.Err()
}
