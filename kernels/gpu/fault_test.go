package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// faulty is a rig on an emulated GPU with a fault.
func faulty(t testing.TB, fault string) *kerneltest.Rig {
	machine(t, emulator.Machine{GPUs: 1, Memory: "256MiB", Fault: fault})
	return gpu.On(t, kerneltest.Open(t, "cuda:0"))
}

// A launch that fails is the batch's error, with the driver's own words.
func TestALaunchThatFails(t *testing.T) {
	r := faulty(t, "cuLaunchKernel:2=1")
	x := r.Tensor(3, 256, kerneltest.Normals(kerneltest.NewRand(70), 3*256))
	err := r.Try(func(q kernels.Queue) { q.Add(x, x); q.Add(x, x); q.Add(x, x) })
	require.ErrorContains(t, err, "cuLaunchKernel")
	require.ErrorContains(t, err, "cuda:0")
	r.Run(func(q kernels.Queue) { q.Add(x, x) })
}

// A workspace that can't be had fails the product that needs it, and says how
// much it was.
func TestAWorkspaceThatCantBeHad(t *testing.T) {
	r := faulty(t, "")
	rng := kerneltest.NewRand(71)
	w := r.Pack(kerneltest.Matrix(rng, kernels.Q8_0, 5, 256))
	x, dst := r.Tensor(2, 256, kerneltest.Normals(rng, 2*256)), r.Tensor(2, 5, nil)
	free := r.Q.Device().Info().Free
	var hog []interface{ Free() error }
	for size := free; size >= 64; size /= 2 {
		for {
			b, err := r.Q.Device().Alloc(size)
			if err != nil {
				break
			}
			hog = append(hog, b)
		}
	}
	products := []kernels.Product{{W: w, Dst: dst}}
	err := r.Try(func(q kernels.Queue) { q.MatMul(x, products) })
	require.ErrorContains(t, err, "MatMul of [2, 256]: workspace: ")
	for _, b := range hog {
		require.NoError(t, b.Free())
	}
	r.Run(func(q kernels.Queue) { q.MatMul(x, products) })
}

// A GPU that goes away fails what is enqueued, and what comes after; nothing
// hangs, and all can be freed.
func TestAGPUThatVanishes(t *testing.T) {
	r := faulty(t, "vanish:0@3")
	x := r.Tensor(3, 256, kerneltest.Normals(kerneltest.NewRand(72), 3*256))
	err := r.Try(func(q kernels.Queue) {
		for range 5 {
			q.Add(x, x)
		}
	})
	require.ErrorContains(t, err, "cuda:0")
	require.Error(t, r.Try(func(q kernels.Queue) { q.Add(x, x) }))
	_, err = r.Q.Pack(t.Context(), kerneltest.Matrix(kerneltest.NewRand(73), kernels.F32, 40, 40))
	require.ErrorContains(t, err, "weight w")
}

// Pinned memory, queues and events that can't be had are errors of the weight,
// and leave nothing.
func TestPackWithoutMeans(t *testing.T) {
	for _, fault := range []string{"cuMemHostAlloc:2", "cuStreamCreate:3=2", "cuMemcpyHtoDAsync:1=1"} {
		t.Run(fault, func(t *testing.T) {
			r := faulty(t, fault)
			before := r.Q.Device().Allocated()
			m := kerneltest.Matrix(kerneltest.NewRand(74), kernels.Q4_0, 40, 64)
			_, err := r.Q.Pack(t.Context(), m)
			require.ErrorContains(t, err, "weight w: ")
			require.Equal(t, before, r.Q.Device().Allocated())
			requirePacked(t, r, m, r.Pack(m))
		})
	}
}
