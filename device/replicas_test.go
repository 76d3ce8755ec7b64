package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplicasAreOnePlace(t *testing.T) {
	places, err := Resolve("cuda:0=50%|cuda:1=7@2|cuda:0,cpu", 3)
	require.NoError(t, err)
	require.Len(t, places, 2)
	first := Place{Info: cudas.info(0), Budget: 500}
	second := Place{Info: cudas.info(1), Budget: 7, Speed: 2}
	third := Place{Info: cudas.info(0), Budget: -1}
	require.Equal(t, []Place{first, second, third}, places[0].Each())
	require.Equal(t, "cuda:0|cuda:1|cuda:0", places[0].Name())
	require.Equal(t, "cuda:0=500|cuda:1=7@2|cuda:0", places[0].String())
	require.Equal(t, places[1:], places[1].Each())
	require.Equal(t, "cpu:all of 3", places[1].Name())

	again, err := Resolve(places[0].String(), 3)
	require.NoError(t, err)
	require.Equal(t, places[:1], again, "a place is written as it is read")
}

func TestReplicasThatAreNone(t *testing.T) {
	for list, want := range map[string]string{
		"cpu/2|cpu:1":   `device list entry "cpu/2|cpu:1": cpu/2 stands for 2 devices, but a replica has one: name each device`,
		"cpu:1|cpu/2":   `device list entry "cpu:1|cpu/2": cpu/2 stands for 2 devices, but a replica has one: name each device`,
		"cuda:x|cuda":   `device list entry "cuda:x": not a number`,
		"metal|metal":   "device metal: no metal device: Leat has no metal backend yet",
		"cuda:0|cuda:9": "device cuda:9: there are only 2",
	} {
		_, err := Resolve(list, 0)
		require.EqualError(t, err, want)
	}

	cpus.simd = []string{"avx2", "avx512"}
	defer func() { cpus.simd = nil }()
	_, err := Resolve("cpu:0|cpu:1", 0)
	require.EqualError(t, err, `device list entry "cpu:0|cpu:1": cpu:0 computes with avx2 and cpu:1 with avx512: replicas must give the same bits, and do so within one SIMD level only; separate them by a comma`)
	require.ErrorAs(t, err, new(*ListError))
	_, err = Resolve("cpu:0,cpu:1", 0)
	require.NoError(t, err, "stages of their own may differ")
}

func TestWhatIfOfReplicas(t *testing.T) {
	places, err := WhatIf("cuda:0=24GiB|cuda:7=8GiB@20,cpu:0-3|cpu:4")
	require.NoError(t, err)
	require.Len(t, places, 2)
	require.Equal(t, "cuda:0=25769803776|cuda:7=8589934592@20", places[0].String())
	require.Equal(t, 20.0, places[0].Also[0].Speed)
	require.Equal(t, GuessedSpeed(CUDA), places[0].Speed)
	require.Equal(t, []float64{4, 1}, []float64{places[1].Speed, places[1].Also[0].Speed})

	for _, list := range []string{"cpu/2|cpu:0", "cuda|cuda:1", "cuda:0|cuda:1=50%", "cuda:0|metal:0"} {
		_, err := WhatIf(list)
		require.ErrorAs(t, err, new(*ListError), list)
	}
}
