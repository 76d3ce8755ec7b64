package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// searching is a search among settings whose speeds are as a function says, which
// counts what is measured.
func searching(speed func(setting) float64) (s *search, measured map[setting]int) {
	measured = map[setting]int{}
	s = &search{
		lists:    []string{"cpu/2", "cpu/3"},
		batches:  []int{8, 16},
		queues:   []int{0, 1, 2},
		inFlight: true,
		goOn:     func() bool { return true },
		measure: func(_ context.Context, next setting) (*trial, error) {
			measured[next]++
			v := speed(next)
			if v == 0 {
				return nil, nil
			}
			return &trial{setting: next, flights: 2, speeds: []float64{v, v * 1.001, v * 0.999}}, nil
		},
	}
	return s, measured
}

// found searches to the end.
func found(t *testing.T, s *search) *trial {
	t.Helper()
	_, err := s.run(t.Context())
	require.NoError(t, err)
	best, err := s.confirm(t.Context())
	require.NoError(t, err)
	return best
}

func TestSearchFindsWhatIsBest(t *testing.T) {
	want := setting{devices: "cpu/3", inFlight: "4", maxBatch: "8", queue: "2"}
	s, measured := searching(func(at setting) float64 {
		v := 100.0
		if at.devices == want.devices {
			v += 50
		}
		if at.inFlight == want.inFlight {
			v += 20
		}
		if at.maxBatch == want.maxBatch {
			v += 20
		}
		if at.queue == want.queue {
			v += 20
		}
		return v
	})
	best := found(t, s)
	assert.Equal(t, want, best.setting)
	assert.Equal(t, "--devices cpu/3 --inflight 4 --max-batch 8 --queue 2", best.String())
	assert.Less(t, len(measured), 3*5*3*4, "not all there are")
	for at, n := range measured {
		assert.LessOrEqual(t, n, 2, "%v: in the search, and to confirm it", at)
	}
	ranked := s.ranked()
	assert.Same(t, best, ranked[0])
	assert.Len(t, ranked[0].speeds, 6)
	assert.Len(t, s.given().speeds, 6)
}

func TestSearchTakesNoNoiseForBetter(t *testing.T) {
	s, _ := searching(func(at setting) float64 {
		if at == (setting{devices: "cpu/2"}) {
			return 101
		}
		return 100
	})
	best := found(t, s)
	assert.Equal(t, setting{}, best.setting)
	assert.Equal(t, "the flags as given", best.String())

	luck := &trial{speeds: []float64{90, 110, 120}}
	given := &trial{speeds: []float64{95, 100, 112}}
	assert.False(t, luck.clearly(given))
	assert.True(t, (&trial{speeds: []float64{113, 114, 115}}).clearly(given))
}

// What can't be measured is left out, be it the flags as given.
func TestSearchWithoutTheFlagsAsGiven(t *testing.T) {
	s, _ := searching(func(at setting) float64 {
		if at.devices == "" || at.queue == "2" {
			return 0
		}
		return 100
	})
	assert.Equal(t, setting{devices: "cpu/2"}, found(t, s).setting)
	assert.Nil(t, s.given())

	s, _ = searching(func(setting) float64 { return 0 })
	best, err := s.run(t.Context())
	assert.NoError(t, err)
	assert.Nil(t, best)
}

func TestSearchEndsWithItsTimeAndItsContext(t *testing.T) {
	s, measured := searching(func(setting) float64 { return 100 })
	s.goOn = func() bool { return len(measured) < 3 }
	_, err := s.run(t.Context())
	require.NoError(t, err)
	assert.Len(t, measured, 3)

	s, measured = searching(func(setting) float64 { return 100 })
	s.goOn = func() bool { return false }
	assert.Equal(t, setting{}, found(t, s).setting)
	assert.Len(t, measured, 1, "the flags as given are measured in any case")

	ended := errors.New("ended")
	s, _ = searching(nil)
	s.measure = func(context.Context, setting) (*trial, error) { return nil, ended }
	_, err = s.run(t.Context())
	assert.ErrorIs(t, err, ended)
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"cpu:0=1GiB@2,cuda:0": "cpu:0=1GiB@2,cuda:0",
		"a|b":                 "'a|b'",
		"it's":                `'it'\''s'`,
		"":                    "''",
		"a b":                 "'a b'",
		"ü":                   "'ü'",
	} {
		assert.Equal(t, want, shellWord(text))
	}
}
