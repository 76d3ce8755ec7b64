package pipeline

// Every pipeline can stand on cores. A program that is to run on GPUs imports package
// backends, or one of the packages below it.
import (
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/kernels/cpu"
)
