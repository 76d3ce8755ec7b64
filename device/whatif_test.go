package device

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIfAsksNoMachine(t *testing.T) {
	places, err := WhatIf("metal:0=24GiB@8,rocm:3,cpu/2=8GiB")
	require.NoError(t, err)
	require.Len(t, places, 4)
	require.Equal(t, Place{
		Info:   Info{Name: "metal:0", Kind: Metal, Description: "imagined", Memory: 24 << 30, Free: 24 << 30, Imagined: true},
		Budget: 24 << 30,
		Speed:  8,
	}, places[0])
	require.EqualValues(t, -1, places[1].Budget)
	require.Equal(t, "cpu:0", places[2].Info.Name)
	require.Equal(t, "cpu:1", places[3].Info.Name)
}

// Speeds that the list doesn't give are guesses, all in CPU cores.
func TestWhatIfGuessesSpeeds(t *testing.T) {
	places, err := WhatIf("cuda:0,rocm:0,metal:0,cpu,cpu:0-2+5,cpu/2,cpu:1@0.5,cuda:1@3,cpu/16=1GiB")
	require.NoError(t, err)
	var speeds []float64
	for _, p := range places[:10] {
		speeds = append(speeds, p.Speed)
	}
	assert.Equal(t, []float64{50, 40, 20, 8, 4, 4, 4, 0.5, 3, 0.5}, speeds)
	for _, k := range Kinds {
		assert.Positive(t, GuessedSpeed(k), k)
	}
	assert.Equal(t, "cuda:0", places[0].String(), "a guess is nothing that the list says")
	assert.Equal(t, "cuda:1@3", places[8].String())
	assert.Greater(t, GuessedSpeed(Metal), GuessedSpeed(CPU), "a GPU without a speed is never worth less than a CPU")
}

func TestWhatIfRefuses(t *testing.T) {
	for _, list := range []string{
		"", "auto", "vulkan:0", "cuda:0=50%", "cuda:0=1GiB=2GiB", "cuda", "cuda/2", "cuda:", "cuda:x", "cuda:-1", "cuda:+1",
		"cpu/0", "cpu/x", "cpu/4097", "cpu/2/2", "cpu:", "cpu:a", "cpu:3-1", "cpu:0+0", "cpu:0-2+1", "cpu:0-", "cpu:9999",
		"cpu:99999999999999999999", "cpu:0-99999",
	} {
		_, err := WhatIf(list)
		require.ErrorAs(t, err, new(*ListError), list)
	}
}
