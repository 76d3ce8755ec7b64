// Package ptx is the kernels compiled for NVIDIA GPUs, of compute capability 7.5 and up.
package ptx

import _ "embed"

// Kernels is the PTX of all kernels, text that the driver compiles for its GPU when a
// module is loaded, and keeps for the next time.
//
// make kernels writes it from internal/gpukernels/source. It is PTX 8.4, which drivers take
// from CUDA 12.4 on (NVIDIA, "Parallel Thread Execution ISA", release history).
//
//go:embed kernels.ptx
var Kernels []byte

// Version is the PTX version of Kernels, and Driver the least version that a driver
// must say of itself, as cuDriverGetVersion counts: 1000·major + 10·minor.
const (
	Version = "8.4"
	Driver  = 12040
)
