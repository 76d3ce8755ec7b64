//go:build !race

package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not under the race detector, where a sync.Pool forgets at random what purego's
// calls keep in one.
func TestOpsAllocateNothing(t *testing.T) {
	r := onGPU(t)
	for _, typ := range cacheTypes {
		l := newLayer(r, typ)
		for name, op := range l.ops() {
			r.run(op)
			held := r.q.Device().Allocated()
			r.q.Begin()
			count := testing.AllocsPerRun(20, func() { op(r.q) })
			r.q.Record(r.ready)
			r.q.End()
			require.NoError(t, r.ready.Wait(t.Context()))
			require.Zero(t, count, "%s with a cache of %v", name, typ)
			require.Equal(t, held, r.q.Device().Allocated(), "%s", name)
		}
	}
}
