package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A heap does what a sorted list does, whatever is pushed, moved and removed.
func TestHeapKeepsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := heap{before: before, place: inWaiting}
	var all []*Sequence
	for i := range 5000 {
		switch {
		case rng.IntN(2) == 0 || len(all) == 0:
			s := &Sequence{Priority: rng.IntN(3), arrival: uint64(i)}
			all = append(all, s)
			h.push(s)
		case rng.IntN(3) == 0:
			s := all[rng.IntN(len(all))]
			s.Priority = rng.IntN(3)
			h.push(s)
		default:
			j := rng.IntN(len(all))
			h.remove(all[j])
			h.remove(all[j])
			require.Zero(t, all[j].places[inWaiting])
			all = slices.Delete(all, j, j+1)
		}
		slices.SortFunc(all, order)
		require.Equal(t, len(all), h.len())
		if len(all) > 0 {
			require.Same(t, all[0], h.first())
		} else {
			require.Nil(t, h.first())
		}
	}
	for _, s := range all {
		require.Same(t, s, h.first())
		h.remove(s)
	}
}

// A list does what a slice does.
func TestListKeepsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l list
	var all []*Sequence
	for range 5000 {
		switch s := new(Sequence); rng.IntN(4) {
		case 0:
			l.push(s)
			all = append(all, s)
		case 1:
			l.pushFront(s)
			all = slices.Insert(all, 0, s)
		default:
			if len(all) > 0 {
				i := rng.IntN(len(all))
				all[i].unlink()
				all[i].unlink()
				all = slices.Delete(all, i, i+1)
			}
		}
		require.Equal(t, len(all), l.n)
		at := l.first
		for _, s := range all {
			require.Same(t, s, at)
			at = at.next
		}
		require.Nil(t, at)
	}
}
