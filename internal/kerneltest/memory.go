package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Allocations tests that in the steady state an op allocates nothing, neither on the
// host nor on the device. Where calls into a driver go through a sync.Pool, it can't
// run under the race detector, which has the pool forget at random.
func Allocations(t *testing.T, b Backend) {
	r := b.Rig(t)
	for _, typ := range CacheTypes {
		l := NewLayer(r, typ, b.fewer(wide, narrow))
		ops := l.Ops()
		ops["Attention of every kind"] = l.Various(r).Ops()["Attention"]
		for name, op := range ops {
			r.Run(op)
			held := r.Q.Device().Allocated()
			r.Q.Begin()
			count := testing.AllocsPerRun(20, func() { op(r.Q) })
			r.Q.Record(r.Ready)
			r.Q.End()
			require.NoError(t, r.Ready.Wait(t.Context()))
			require.Zero(t, count, "%s with a cache of %v", name, typ)
			require.Equal(t, held, r.Q.Device().Allocated(), "%s", name)
		}
	}
}

// Memory tests what ops keep for themselves, and calls of no rows.
func Memory(t *testing.T, b Backend) {
	b.run(t,
		part{"GrowsAndStays", memoryGrowsAndStays},
		part{"ReserveTakesWhatWasSaidBeforehand", reserveTakesWhatWasSaid},
		part{"OfNoRows", opsOfNoRows})
}

// What a smaller batch needs is there after a larger one.
func memoryGrowsAndStays(t *testing.T, b Backend) {
	r := b.Rig(t)
	l := NewLayer(r, kernels.Q8_0, b.fewer(wide, narrow))
	all := func(q kernels.Queue) {
		for _, op := range l.Ops() {
			op(q)
		}
	}
	r.Run(all)
	h := l.Header
	h.Tokens, h.Positions, h.Tables, h.Outputs = h.Tokens[:5], h.Positions[:5], h.Tables[:5], h.Outputs[:1]
	l.Rows = r.Rows(h)
	l.First(5, 1)
	held := r.Q.Device().Allocated()
	r.Run(all)
	require.Equal(t, held, r.Q.Device().Allocated())
}

func reserveTakesWhatWasSaid(t *testing.T, b Backend) {
	d := b.Open(t)
	for _, c := range []struct{ rows, cols int }{{0, 0}, {7, 0}, {3, 100}, {64, 512}} {
		r := b.On(t, d)
		want, err := r.ops.WorkspaceBytes(d.Info(), c.rows, c.cols)
		require.NoError(t, err)
		before := d.Allocated()
		require.NoError(t, r.Q.Reserve(c.rows, c.cols))
		require.Equal(t, want, d.Allocated()-before, "%v", c)
		require.NoError(t, r.Q.Reserve(c.rows/2, c.cols/2), "less")
		require.Equal(t, want, d.Allocated()-before, "%v", c)
	}
	r := b.On(t, d)
	_, err := r.ops.WorkspaceBytes(d.Info(), 1<<40, 1<<40)
	require.Error(t, err)
	require.Error(t, r.Q.Reserve(1<<40, 1<<40))
	require.NoError(t, r.Q.Reserve(64, 512), "it is as good as before")
}

// An op of no rows does nothing.
func opsOfNoRows(t *testing.T, b Backend) {
	r := b.Rig(t)
	l := NewLayer(r, kernels.F16, narrow)
	l.Header.Reset()
	l.Rows = r.Rows(l.Header)
	l.First(0, 0)
	for name, op := range l.Ops() {
		require.NoError(t, r.Try(op), name)
	}
	r.Run(func(q kernels.Queue) { q.MatMul(l.X, nil) })
}
