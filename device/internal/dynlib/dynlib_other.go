//go:build !((linux || windows) && (amd64 || arm64))

package dynlib

import "errors"

// Supported reports whether this package can load libraries on this system.
const Supported = false

// Open returns errors.ErrUnsupported.
func Open(string, bool) (uintptr, error) { return 0, errors.ErrUnsupported }

// Find returns errors.ErrUnsupported.
func Find(uintptr, string) (uintptr, error) { return 0, errors.ErrUnsupported }

// Call panics. It can't be reached, because Open fails.
func (c *Caller) Call(uintptr, ...uintptr) uintptr { panic(errors.ErrUnsupported) }
