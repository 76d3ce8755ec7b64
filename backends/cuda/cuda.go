//go:build !nogpu

package cuda

import (
	_ "github.com/leat-dev/leat/device/cuda"
	_ "github.com/leat-dev/leat/kernels/gpu"
)
