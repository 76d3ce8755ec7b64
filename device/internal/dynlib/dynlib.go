// Package dynlib loads a shared library at run time, such as a GPU's driver, and calls its
// functions. It doesn't know what the functions do. On systems for which it has no
// implementation, Supported is false and Open fails.
package dynlib

// mostArguments is the maximum number of arguments of a call.
const mostArguments = 12

// Caller calls functions of a library. It has memory for the arguments, so that a call
// doesn't allocate. It may be used by only one goroutine at a time.
type Caller struct{ args [mostArguments]uintptr }
