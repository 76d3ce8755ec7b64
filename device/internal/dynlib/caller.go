//go:build (linux || windows) && (amd64 || arm64)

package dynlib

import "github.com/ebitengine/purego"

// Supported reports whether this package can load libraries on this system.
const Supported = true

// Call calls the function at an entry point and returns its result register, of which a C
// int is the lower half. Memory that an argument points to must be on the heap, where it
// doesn't move.
func (c *Caller) Call(entry uintptr, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	r, _, _ := purego.SyscallN(entry, c.args[:n]...)
	return r
}
