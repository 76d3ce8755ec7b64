package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const model = "../../internal/stories/stories260K.gguf"

func TestEveryPromptGetsItsLine(t *testing.T) {
	defer goleak.VerifyNone(t)
	var prompts, out strings.Builder
	for i := range 150 {
		fmt.Fprintln(&prompts, []string{"Once upon a time", "The dog", "One day"}[i%3])
	}
	require.NoError(t, run(t.Context(), model, strings.NewReader(prompts.String()), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 150)
	assert.True(t, strings.HasPrefix(lines[0], `", there was a little girl named Lily.`), lines[0])
	for i, line := range lines {
		assert.Equal(t, lines[i%3], line, "one prompt has one continuation")
	}
}

func TestAFailureEndsIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	long := strings.Repeat("word ", 500)
	err := run(t.Context(), model, strings.NewReader("Once\n"+long+"\nOnce\n"), &strings.Builder{})
	assert.ErrorContains(t, err, "longer than the context")
}
