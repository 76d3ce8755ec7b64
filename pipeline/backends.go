package pipeline

// The devices and op sets that a pipeline can be made of. Each registers itself.
import (
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/kernels/cpu"
)
