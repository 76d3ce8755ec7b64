package generate_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// A batch waits for more rows as long as it may, and not at all when it has its
// share. Time is the test's own.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t)
		e, err := generate.New(t.Context(), m, on("cpu"), generate.WithMaxSeqs(2), pipeline.WithMaxWait(time.Hour))
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		three := generate.Request{Prompt: "Once upon a time", MaxTokens: 3}

		began := time.Now()
		_, err = e.Generate(t.Context(), three)
		require.NoError(t, err)
		assert.Equal(t, 2*time.Hour, time.Since(began), "the prompt's rows are enough, each of two single rows waits")

		began = time.Now()
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				_, err := e.Generate(t.Context(), three)
				assert.NoError(t, err)
			})
		}
		wait.Wait()
		assert.LessOrEqual(t, time.Since(began), 2*time.Hour, "two fill each other's batches")
	})
}

// A batch waits for nothing once its engine knows that no more requests come.
func TestMaxWaitEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *generate.Engine){
		"SetMaxWait": func(_ *testing.T, e *generate.Engine) { e.SetMaxWait(0) },
		"Drain":      func(t *testing.T, e *generate.Engine) { assert.NoError(t, e.Shutdown(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := generate.New(t.Context(), parse(t), on("cpu"), generate.WithMaxSeqs(2), pipeline.WithMaxWait(time.Hour))
				require.NoError(t, err)
				began := time.Now()
				var wait sync.WaitGroup
				wait.Go(func() {
					_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 30})
					assert.NoError(t, err)
				})
				time.Sleep(time.Minute)
				end(t, e)
				wait.Wait()
				assert.Equal(t, time.Minute, time.Since(began))
				require.NoError(t, e.Close())
			})
		})
	}
}
