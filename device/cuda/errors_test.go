package cuda

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
)

func TestErrorsSayWhatTheDriverSays(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	d, err := process.driver()
	require.NoError(t, err)
	e := d.fault("cuda:1", cuMemAlloc, outOfMemory, "")
	require.Equal(t, "CUDA_ERROR_OUT_OF_MEMORY", e.Name)
	require.Equal(t, "cuda:1: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", e.Error())
	require.Equal(t, "cuInit: error 543210", d.fault("", cuInit, 543210, "").Error())
	require.Equal(t, "cuda:0: cuX: N (m): why", (&Error{Device: "cuda:0", Call: "cuX", Name: "N", Message: "m", Detail: "why"}).Error())
}

func TestErrorsAreToldApart(t *testing.T) {
	is := func(s symbol, code result) (outOfMemory, lost bool) {
		err := fmt.Errorf("wrapped: %w", &Error{Call: s.String(), Code: int(code)})
		return errors.Is(err, ErrOutOfMemory), errors.Is(err, ErrLost)
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

func TestWhatFollowsALossNamesItsCause(t *testing.T) {
	first := &Error{Device: "cuda:0", Call: "cuLaunchKernel", Code: 719, Name: "CUDA_ERROR_LAUNCH_FAILED", Message: "unspecified launch failure"}
	p := &primary{name: "cuda:0"}
	require.NoError(t, p.gone())
	require.Equal(t, first, p.note(first))
	_ = p.note(&Error{Code: 999})
	require.EqualError(t, p.gone(), "cuda:0: lost before: cuda:0: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure): close all that uses it, or start the program again")
	require.ErrorIs(t, p.gone(), ErrLost)
	var e *Error
	require.ErrorAs(t, p.gone(), &e)
	require.Same(t, first, e)
}
