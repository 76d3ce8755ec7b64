package device

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/allocated"
)

// slot is an open device of a rack.
type slot struct {
	Device
	rack   *rack
	name   string
	closed int
}

func (s *slot) Close() error {
	s.closed++
	s.rack.opened = slices.DeleteFunc(s.rack.opened, func(name string) bool { return name == s.name })
	return errors.New(s.name + " leaked")
}

func TestSetSharesDevices(t *testing.T) {
	var s Set
	a, err := s.Open("cuda:0")
	require.NoError(t, err)
	b, err := s.Open("cuda:1")
	require.NoError(t, err)
	require.NotSame(t, a, b)
	again, err := s.Open("cuda:0")
	require.NoError(t, err)
	require.Same(t, a, again)
	other, err := s.Open("cuda:00")
	require.NoError(t, err)
	require.Same(t, a, other, "another name for the same device")
	require.Equal(t, []string{"cuda:0", "cuda:1"}, cudas.opened)

	_, err = s.Open("cuda")
	require.ErrorContains(t, err, "stands for 2 devices")
	_, err = s.Open("cuda:7")
	require.ErrorContains(t, err, "there are only 2")
	_, err = s.Open("nonsense")
	require.ErrorAs(t, err, new(*ListError))

	err = s.Close()
	require.EqualError(t, err, "cuda:1 leaked\ncuda:0 leaked", "the last opened first, no error lost")
	require.Empty(t, cudas.opened)
	require.NoError(t, s.Close())
	require.Equal(t, 1, a.(*slot).closed)
	_, err = s.Open("cuda:0")
	require.ErrorContains(t, err, "its set is closed")
}

func TestSetKeepsNothingThatFailedToOpen(t *testing.T) {
	var s Set
	cudas.refused = errors.New("out of order")
	_, err := s.Open("cuda:0")
	require.EqualError(t, err, "device cuda:0: out of order")
	cudas.refused = nil
	_, err = s.Open("cuda:0")
	require.NoError(t, err)
	require.Error(t, s.Close())
}

func TestSetsShareTheProcessesDevices(t *testing.T) {
	var first, second Set
	a, err := first.Open("cuda:0")
	require.NoError(t, err)
	b, err := second.Open("cuda:0")
	require.NoError(t, err)
	require.Same(t, a, b)
	require.NoError(t, first.Close())
	require.Equal(t, []string{"cuda:0"}, cudas.opened, "the second set still has it")
	require.EqualError(t, second.Close(), "cuda:0 leaked")
	require.Empty(t, cudas.opened)
	require.Zero(t, allocated.Bytes("cuda:0"))
}
