package generate_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline/generate"
)

func TestLatency(t *testing.T) {
	const requests, tokens = 8, 10
	e := tale(t, on(stagetest.Devices(t, "cpu,cpu")), generate.WithMaxSeqs(2))
	var wait sync.WaitGroup
	for i := range requests {
		wait.Go(func() {
			_, err := e.Generate(t.Context(), generate.Request{Tokens: []int32{1, 403, int32(300 + i)}, MaxTokens: tokens, IgnoreEnd: true})
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	l := e.Stats()
	assert.EqualValues(t, requests, l.Queue.Count())
	assert.EqualValues(t, requests, l.FirstToken.Count())
	assert.EqualValues(t, requests*(tokens-1), l.Token.Count())
	assert.Greater(t, l.FirstToken.Sum, l.Queue.Sum, "a first token comes after the first rows were sent")
	assert.EqualValues(t, requests, l.ReachedLength)
	assert.EqualValues(t, 3*requests, l.PromptTokens)
	assert.EqualValues(t, tokens*requests, l.GeneratedTokens)
	assert.EqualValues(t, l.Stages[0].Batches, l.Rows.Count())
	assert.EqualValues(t, l.Stages[0].Rows, l.Rows.Sum)

	logits(t, e, []int32{1, 403, 407})
	after := e.Stats()
	assert.Equal(t, l.Queue, after.Queue, "logits are nobody's tokens")
	assert.Equal(t, l.FirstToken, after.FirstToken)
	assert.Equal(t, l.Token, after.Token)
	assert.EqualValues(t, requests, after.ReachedLength)
}

func TestTotalsByFinish(t *testing.T) {
	e := tale(t, on(stagetest.Devices(t, "cpu")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := e.Generate(ctx, generate.Request{Prompt: openings[0], IgnoreEnd: true, Sampler: samples(func([]float32) (int32, error) {
		cancel() // before the request can reach its full length
		return 403, nil
	})})
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Generate(t.Context(), generate.Request{Prompt: openings[0], Sampler: broken{}})
	require.Error(t, err)
	r, err := e.Generate(t.Context(), generate.Request{Prompt: openings[0], Stop: []string{" "}})
	require.NoError(t, err)
	require.Equal(t, generate.Stop, r.Finish)
	got := e.Stats()
	assert.Equal(t, []int64{1, 0, 1, 1}, []int64{got.Stopped, got.ReachedLength, got.Cancelled, got.Failed})
}

type broken struct{}

func (broken) Sample([]float32, []int32) (int32, error) { return -1, nil }
