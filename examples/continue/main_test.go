package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestContinuesThePrompt(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), "../../internal/stories/stories260K.gguf", "Once upon a time", &out))
	assert.True(t, strings.HasPrefix(out.String(), ", there was a little girl named Lily."), out.String())
}

func TestSaysWhatIsWrong(t *testing.T) {
	assert.ErrorContains(t, run(t.Context(), "nothing.gguf", "x", &strings.Builder{}), "nothing.gguf")
}
