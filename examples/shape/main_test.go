package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestAnswersInShape(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, prompt := range []string{"Lily had a dog. It was called", "Once", "zzz"} {
		text, err := run(t.Context(), "../../internal/stories/stories260K.gguf", prompt)
		require.NoError(t, err)
		var pet struct{ Name, Likes string }
		require.NoError(t, json.Unmarshal([]byte(text), &pet), text)
		assert.Regexp(t, "^[a-z]{1,12}$", pet.Name)
		assert.Regexp(t, "^[a-z]{1,12}$", pet.Likes)
	}
}

func TestMatch(t *testing.T) {
	for text, want := range map[string][2]bool{
		"":                              {true, false},
		`{"na`:                          {true, false},
		`{"name":"rex`:                  {true, false},
		`{"name":"rex","likes":"a"}`:    {true, true},
		`{"name":""`:                    {false, false},
		`{"name":"Rex`:                  {false, false},
		`{"name":"rex","likes":"a"} `:   {false, false},
		`{"name":"abcdefghijklmnop`:     {false, false},
		`{"name":"abcdefghijkl","likes`: {true, false},
	} {
		begins, whole := pet.match(text)
		assert.Equal(t, want, [2]bool{begins, whole}, text)
	}
}
