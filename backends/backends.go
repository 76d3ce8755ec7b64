// Package backends registers every GPU backend of Leat in a program that imports it:
//
//	import _ "github.com/leat-dev/leat/backends"
//
// Package pipeline by itself has only the CPU backend, so that a program which computes on cores
// links neither GPU kernels nor the code that loads a driver. As with the drivers of database/sql,
// a program imports the backends for their side effects, usually in package main: this package for
// every kind of GPU, or one of its sub-packages for a single kind.
//
// With the build tag nogpu, the sub-packages, and so this package, register nothing. Such a program
// doesn't need the system's C library, which on Linux is necessary to load a driver.
//
// The package owns the list of backends and has no code.
package backends

import _ "github.com/leat-dev/leat/backends/cuda"
