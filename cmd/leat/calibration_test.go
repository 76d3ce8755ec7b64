package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/calibrate"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/placement"
)

func TestCalibrationIsTheUsersChoice(t *testing.T) {
	for value, options := range map[string]int{"": 1, "off": 0} {
		t.Setenv(ratesVariable, value)
		got, err := new(pipelineFlags).calibration()
		require.NoError(t, err)
		assert.Len(t, got, options)
	}
	t.Setenv(ratesVariable, "")
	for _, f := range []pipelineFlags{{placed: new(placement.File)}, {imagined: true}, {pack: pipeline.FirstFit}} {
		got, err := f.calibration()
		require.NoError(t, err)
		assert.Empty(t, got, "the plan doesn't depend on it")
	}
	t.Setenv(ratesVariable, "0")
	_, err := new(pipelineFlags).calibration()
	require.EqualError(t, err, `LEAT_RATES=0: it may be "off", or not set`)

	err = uncalibrated(fmt.Errorf("%w of cuda:1: out of order", calibrate.ErrMeasuring))
	assert.EqualError(t, err, "measuring the speed of cuda:1: out of order (LEAT_RATES=off does without)")
	other := errors.New("no such device")
	assert.Equal(t, other, uncalibrated(other))
}
