package cpu

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

func TestSpanSharesOutAll(t *testing.T) {
	for units := range 40 {
		for cut := 1; cut < 9; cut++ {
			next := 0
			for p := range cut {
				from, to := span(p, cut, units)
				require.Equal(t, next, from)
				require.LessOrEqual(t, to-from, units/cut+1)
				next = to
			}
			require.Equal(t, units, next)
		}
	}
	require.Equal(t, 1, parts(100, 2*partTime-1), "small work stays with the caller")
	require.Equal(t, 2, parts(100, 2*partTime))
	require.Equal(t, 100, parts(100, 1e12))
	require.Equal(t, 1, parts(0, 1e12))
}

func TestGuidedSharesOutAllInFallingSpans(t *testing.T) {
	for units := range 300 {
		for _, workers := range []int{1, 2, 3, 64} {
			for _, ns := range []float64{1, 1e5, 1e9} {
				g := newGuided(units, ns, workers)
				next, before := 0, units
				for p := range g.parts() {
					from, to := g.span(p)
					require.Equal(t, next, from)
					require.Positive(t, to-from)
					require.LessOrEqual(t, to-from, before)
					next, before = to, to-from
				}
				require.Equal(t, units, next)
			}
		}
	}
	require.Equal(t, 1, newGuided(100, 2*partTime-1, 2).parts(), "small work stays with the caller")
	from, to := newGuided(100, 1e9, 2).span(0)
	require.Equal(t, []int{0, 25}, []int{from, to})
}

// full is a device without memory to spare.
type full struct{ device.Device }

func (full) Alloc(int64) (device.Buffer, error) { return nil, errors.New("nothing left") }

func TestScratchThatCantBeHadIsAnError(t *testing.T) {
	var s scratch
	_, err := s.take(full{}, 100)
	require.ErrorContains(t, err, "nothing left")
	require.NoError(t, s.free())
}
