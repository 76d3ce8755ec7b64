package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/calibrate"
)

func TestCalibrationIsTheUsersChoice(t *testing.T) {
	for value, options := range map[string]int{"": 1, "off": 0} {
		t.Setenv(ratesVariable, value)
		got, err := calibration()
		require.NoError(t, err)
		assert.Len(t, got, options)
	}
	t.Setenv(ratesVariable, "0")
	_, err := calibration()
	require.EqualError(t, err, `LEAT_RATES=0: it may be "off", or not set`)

	err = uncalibrated(fmt.Errorf("%w of cuda:1: out of order", calibrate.ErrMeasuring))
	assert.EqualError(t, err, "measuring the speed of cuda:1: out of order (LEAT_RATES=off does without)")
	other := errors.New("no such device")
	assert.Equal(t, other, uncalibrated(other))
}
