//go:build (linux || windows) && (amd64 || arm64)

package dynlib

import "github.com/ebitengine/purego"

// Supported says that libraries can be loaded on this system.
const Supported = true

// Call calls the function at an entry point and returns the register of its result, of
// which an int is the lower half. What an argument points to is on the heap already,
// where it doesn't move.
func (c *Caller) Call(entry uintptr, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	r, _, _ := purego.SyscallN(entry, c.args[:n]...)
	return r
}
