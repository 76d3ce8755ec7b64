package generate_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline/generate"
)

// A request with a small TopK is drawn from the largest logits alone, which the device
// selects, unless another one in its batch needs whole rows. Its text is the same.
func TestDrawsFromTheLargestLogits(t *testing.T) {
	e := tale(t, on(stagetest.OneKind(t, "cpu/2")), generate.WithMaxSeqs(16))
	reduced := func(i int) generate.Request {
		return generate.Request{
			Prompt: openings[i%len(openings)], MaxTokens: 40, IgnoreEnd: true,
			Sampling: generate.Sampling{Temperature: 1.2, TopK: 5 + i, TopP: 0.98, Seed: uint64(i)},
		}
	}
	var alone []generate.Result
	for i := range 8 {
		r, err := e.Generate(t.Context(), reduced(i))
		require.NoError(t, err)
		alone = append(alone, r)
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() { // beside it: whole rows, and the most likely token alone
			_, err := e.Generate(t.Context(), generate.Request{Prompt: openings[i], MaxTokens: 60, LogProbs: i%2 == 0})
			assert.NoError(t, err)
		})
		wait.Go(func() {
			r, err := e.Generate(t.Context(), reduced(i))
			assert.NoError(t, err)
			assert.Equal(t, alone[i].Tokens, r.Tokens)
			assert.Equal(t, alone[i].Text, r.Text)
		})
	}
	wait.Wait()
	greedy, err := e.Generate(t.Context(), generate.Request{Prompt: openings[0], MaxTokens: 40, IgnoreEnd: true})
	require.NoError(t, err)
	assert.NotEqual(t, greedy.Tokens, alone[0].Tokens, "they are drawn")
}
