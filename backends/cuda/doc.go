// Package cuda brings NVIDIA GPUs into a program that imports it for its effect: the
// devices of package device/cuda, and the op set of package kernels/gpu.
//
//	import _ "github.com/leat-dev/leat/backends/cuda"
//
// With the build tag nogpu it brings nothing.
package cuda
