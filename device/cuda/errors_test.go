package cuda

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
)

func TestErrorsSayWhatTheDriverSays(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	d, err := process.driver()
	require.NoError(t, err)
	c := &calls{cuda: d}
	e := c.fault(cuMemAlloc, outOfMemory)
	require.Equal(t, "CUDA_ERROR_OUT_OF_MEMORY", e.Name)
	require.Equal(t, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", e.Error())
	require.Equal(t, "cuInit: error 543210", c.fault(cuInit, 543210).Error())
}

func TestErrorsAreToldApart(t *testing.T) {
	c := &calls{cuda: new(cuda)} // without words
	is := func(s symbol, code result) (outOfMemory, lost bool) {
		err := fmt.Errorf("wrapped: %w", c.fault(s, code))
		return errors.Is(err, device.ErrOutOfMemory), errors.Is(err, device.ErrLost)
	}
	for code, want := range map[result][2]bool{
		1: {}, 2: {true, false}, 46: {false, true}, 100: {}, 214: {false, true}, 500: {}, 700: {false, true}, 701: {}, 704: {}, 719: {false, true}, 801: {}, 999: {false, true},
	} {
		out, lost := is(cuLaunchKernel, code)
		require.Equal(t, want, [2]bool{out, lost}, code)
	}
	_, lost := is(cuDevicePrimaryCtxRetain, deviceUnavailable)
	require.False(t, lost, "it is only busy")
	_, lost = is(cuInit, unknownError)
	require.False(t, lost, "there was none to lose")
}
