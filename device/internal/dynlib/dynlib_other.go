//go:build !((linux || windows) && (amd64 || arm64))

package dynlib

import "errors"

// Supported says that libraries can be loaded on this system.
const Supported = false

// Open fails.
func Open(string, bool) (uintptr, error) { return 0, errors.ErrUnsupported }

// Find fails.
func Find(uintptr, string) (uintptr, error) { return 0, errors.ErrUnsupported }

// Call panics: without Open there is nothing to call.
func (c *Caller) Call(uintptr, ...uintptr) uintptr { panic(errors.ErrUnsupported) }
