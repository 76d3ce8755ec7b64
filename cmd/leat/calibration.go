package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leat-dev/leat/internal/calibrate"
	"github.com/leat-dev/leat/pipeline"
)

// ratesVariable is the environment variable that, if it is "off", turns the
// measuring of devices off, so that a plan is the same on every run.
const ratesVariable = "LEAT_RATES"

// calibration returns the options that have devices measured, and the rates kept in
// the user's cache folder where there is one. It returns none if the plan doesn't depend
// on the devices' speeds, or if they can't be measured.
func (f *pipelineFlags) calibration() ([]pipeline.Option, error) {
	switch v := os.Getenv(ratesVariable); v {
	case "":
	case "off":
		return nil, nil
	default:
		return nil, fmt.Errorf(`%s=%s: it may be "off", or not set`, ratesVariable, v)
	}
	if f.placed != nil || f.imagined || f.pack == pipeline.FirstFit {
		return nil, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return []pipeline.Option{pipeline.WithCalibration("")}, nil
	}
	return []pipeline.Option{pipeline.WithCalibration(filepath.Join(dir, "leat"))}, nil
}

// uncalibrated adds to the error of a measurement how to do without it.
func uncalibrated(err error) error {
	if errors.Is(err, calibrate.ErrMeasuring) {
		return fmt.Errorf("%w (%s=off does without)", err, ratesVariable)
	}
	return err
}
