// Package backends brings every GPU backend of Leat into a program that imports it:
//
//	import _ "github.com/leat-dev/leat/backends"
//
// Package pipeline by itself knows the CPU alone, so that a program which computes on
// cores links neither GPU kernels nor what loads a driver. As with the drivers of
// database/sql, the program says what else it wants by importing it for its effect,
// once, usually in package main: this package for every kind of GPU, or one of its
// sub-packages for a single kind.
//
// With the build tag nogpu the sub-packages, and so this one, bring nothing. A program
// built so doesn't need the system's C library, which is what loads drivers on Linux.
//
// The package owns the list of backends and has no code of its own.
package backends

import _ "github.com/leat-dev/leat/backends/cuda"
