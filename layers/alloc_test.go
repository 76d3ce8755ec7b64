//go:build !race

package layers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// Not under the race detector, where a sync.Pool forgets at random what calls into a
// driver keep in one.
func TestForwardAllocatesNothing(t *testing.T) {
	eachDevice(t, func(t *testing.T, d device.Device) {
		r := kerneltest.Backend{}.On(t, d)
		for _, l := range []stage.Layer{
			dense(t, "dense", 5, 3, kernels.SiLU),
			function(t, "function", 5, 3, func(dst, src []float32) error { copy(dst, src); return nil }),
		} {
			runner, err := l.Load(t.Context(), r.Q, config)
			require.NoError(t, err)
			pass := &stage.Pass{Queue: r.Q}
			in, out := r.Tensor(4, 5, values(1, 20)), r.Tensor(4, 3, nil)
			r.Run(func(kernels.Queue) {
				require.Zero(t, testing.AllocsPerRun(20, func() {
					if err := runner.Forward(pass, in, out); err != nil {
						t.Error(err)
					}
				}), l.Name())
			})
			require.NoError(t, runner.Close())
		}
	})
}
