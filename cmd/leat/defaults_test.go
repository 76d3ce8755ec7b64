package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/leat-dev/leat/pipeline/generate"
)

// The library has the command's sampling as a value.
func TestDefaultSamplingIsTheCommands(t *testing.T) {
	var f generationFlags
	f.add(pflag.NewFlagSet("leat", pflag.ContinueOnError))
	f.sampling.Seed = 0
	assert.Equal(t, generate.DefaultSampling(), f.sampling)
}
