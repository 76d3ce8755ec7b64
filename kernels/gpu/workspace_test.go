package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// The workspace of a smaller batch is that of a larger one.
func TestWorkspaceGrowsAndStays(t *testing.T) {
	r := gpu.Rig(t)
	l := kerneltest.NewLayer(r, kernels.Q8_0, 256)
	few := l.Clone()
	few.X = few.X.First(5)
	for i := range few.Products {
		few.Products[i].Dst = few.Products[i].Dst.First(5)
	}
	empty := r.Q.Device().Allocated()
	r.Run(func(q kernels.Queue) {
		few.Ops()["MatMul"](q)
		l.Ops()["MatMul"](q) // the kernels before still need the smaller one
	})
	held := r.Q.Device().Allocated()
	require.EqualValues(t, kerneltest.LayerRows*256/32*40, held-empty)
	r.Run(few.Ops()["MatMul"])
	require.Equal(t, held, r.Q.Device().Allocated())
}

func TestReserveTakesWhatWasSaidBeforehand(t *testing.T) {
	r := gpu.Rig(t)
	before, info := r.Q.Device().Allocated(), r.Q.Device().Info()
	for _, c := range []struct{ rows, cols int }{{0, 0}, {7, 0}, {3, 100}, {64, 512}} {
		want, err := backend{}.WorkspaceBytes(info, c.rows, c.cols)
		require.NoError(t, err)
		require.NoError(t, r.Q.Reserve(c.rows, c.cols))
		require.Equal(t, want, r.Q.Device().Allocated()-before, "%v", c)
	}
	info.Imagined = true
	want, err := backend{}.WorkspaceBytes(info, 64, 512)
	require.NoError(t, err)
	require.EqualValues(t, kernels.ContextBytes+64*512/32*40, want)
	_, err = backend{}.WorkspaceBytes(info, 1<<40, 1<<40)
	require.ErrorContains(t, err, "more than memory can hold")
	require.ErrorContains(t, r.Q.Reserve(1<<40, 1<<40), "more than memory can hold")
	require.ErrorContains(t, r.Q.Reserve(-1, 64), "-1 rows")
	require.Error(t, r.Q.Reserve(1<<20, 1<<20), "more than the GPU has")
	require.NoError(t, r.Q.Reserve(64, 512), "it is as good as before")
}
