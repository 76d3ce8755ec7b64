package pipeline

// Every pipeline can use the CPU. A program that uses GPUs imports package
// backends, or one of the packages below it.
import (
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/kernels/cpu"
)
