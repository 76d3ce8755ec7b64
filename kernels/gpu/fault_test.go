package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/kernels"
)

// faulty is a rig on an emulated GPU with a fault.
func faulty(t testing.TB, fault string) *rig {
	machine(t, emulator.Machine{GPUs: 1, Memory: "256MiB", Fault: fault})
	return rigOn(t, open(t, "cuda:0"))
}

// A launch that fails is the batch's error, with the driver's own words.
func TestALaunchThatFails(t *testing.T) {
	r := faulty(t, "cuLaunchKernel:2=1")
	x := r.tensor(3, 256, normals(newRand(70), 3*256))
	err := r.try(func(q kernels.Queue) { q.Add(x, x); q.Add(x, x); q.Add(x, x) })
	require.ErrorContains(t, err, "cuLaunchKernel")
	require.ErrorContains(t, err, "cuda:0")
	r.run(func(q kernels.Queue) { q.Add(x, x) })
}

// A workspace that can't be had fails the product that needs it, and says how
// much it was.
func TestAWorkspaceThatCantBeHad(t *testing.T) {
	r := faulty(t, "")
	s := newShared(newRand(71), 2, 256, allTypes[3:4], 5)
	w := r.pack(s.weights[0])
	x, dst := r.tensor(2, 256, s.x), r.tensor(2, 5, nil)
	free := r.q.Device().Info().Free
	var hog []interface{ Free() error }
	for size := free; size >= 64; size /= 2 {
		for {
			b, err := r.q.Device().Alloc(size)
			if err != nil {
				break
			}
			hog = append(hog, b)
		}
	}
	products := []kernels.Product{{W: w, Dst: dst}}
	err := r.try(func(q kernels.Queue) { q.MatMul(x, products) })
	require.ErrorContains(t, err, "MatMul of [2, 256]: workspace: ")
	for _, b := range hog {
		require.NoError(t, b.Free())
	}
	r.run(func(q kernels.Queue) { q.MatMul(x, products) })
}

// A GPU that goes away fails what is enqueued, and what comes after; nothing
// hangs, and all can be freed.
func TestAGPUThatVanishes(t *testing.T) {
	r := faulty(t, "vanish:0@3")
	x := r.tensor(3, 256, normals(newRand(72), 3*256))
	err := r.try(func(q kernels.Queue) {
		for range 5 {
			q.Add(x, x)
		}
	})
	require.ErrorContains(t, err, "cuda:0")
	require.Error(t, r.try(func(q kernels.Queue) { q.Add(x, x) }))
	_, err = r.q.Pack(t.Context(), matrix(newRand(73), kernels.F32, 40, 40))
	require.ErrorContains(t, err, "weight w")
}

// Pinned memory, queues and events that can't be had are errors of the weight,
// and leave nothing.
func TestPackWithoutMeans(t *testing.T) {
	for _, fault := range []string{"cuMemHostAlloc:2", "cuStreamCreate:3=2", "cuMemcpyHtoDAsync:1=1"} {
		t.Run(fault, func(t *testing.T) {
			r := faulty(t, fault)
			before := r.q.Device().Allocated()
			m := matrix(newRand(74), kernels.Q4_0, 40, 64)
			_, err := r.q.Pack(t.Context(), m)
			require.ErrorContains(t, err, "weight w: ")
			require.Equal(t, before, r.q.Device().Allocated())
			w := r.pack(m)
			require.Equal(t, packAll(t, m), r.bytes(w.(*weight).buf, w.Bytes()))
		})
	}
}
