package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIfAsksNoMachine(t *testing.T) {
	places, err := WhatIf("metal:0=24GiB@8,rocm:3,cpu/2=8GiB")
	require.NoError(t, err)
	require.Len(t, places, 4)
	require.Equal(t, Place{Info{Name: "metal:0", Kind: Metal, Description: "imagined", Memory: 24 << 30, Free: 24 << 30}, 24 << 30, 8}, places[0])
	require.EqualValues(t, -1, places[1].Budget)
	require.Equal(t, "cpu:0", places[2].Info.Name)
	require.Equal(t, "cpu:1", places[3].Info.Name)

	for _, list := range []string{"auto", "cuda:0=50%", "cpu/0", "cpu/x", "vulkan:0", "", "cuda:0=1GiB=2GiB"} {
		_, err := WhatIf(list)
		require.ErrorAs(t, err, new(*ListError), list)
	}
}
