//go:build !nogpu

package pipeline

// With the tag nogpu a build has no GPUs, and so needs no C library of the
// system's: on Linux, to load a driver takes one.
import (
	_ "github.com/leat-dev/leat/device/cuda"
	_ "github.com/leat-dev/leat/kernels/gpu"
)
