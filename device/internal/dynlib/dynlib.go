// Package dynlib loads a GPU driver's library when the program runs, and calls its
// functions. It knows nothing of what they do. On a system that it can't do so on,
// Supported is false and Open fails.
package dynlib

// mostArguments is above what any function called here takes.
const mostArguments = 12

// Caller calls functions of a library. It keeps the arguments, so that a call allocates
// nothing, and so it belongs to one goroutine at a time.
type Caller struct{ args [mostArguments]uintptr }
