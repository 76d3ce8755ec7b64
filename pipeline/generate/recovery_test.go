package generate_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest/simulated"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

// An engine all of whose stages fail refuses requests, tries again by itself after a
// pause, and then writes what it wrote before.
func TestAnEngineRecoversByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("a cable came off")
		var ill atomic.Bool
		e := simulate(t, equal(2, time.Millisecond, 0, 1), func(layers []*simulated.Layer) {
			layers[1].Before = func(*stage.Pass) error {
				if ill.Load() {
					return broken
				}
				return nil
			}
		}, generate.WithContext(64), pipeline.WithFailureLimit(2))
		ask := generate.Request{Tokens: []int32{3, 1, 4}, MaxTokens: 8, IgnoreEnd: true}
		want, err := e.Generate(t.Context(), ask)
		require.NoError(t, err)
		require.Len(t, want.Tokens, 8)
		for range 3 {
			ill.Store(true)
			for range 2 {
				_, err := e.Generate(t.Context(), ask)
				require.ErrorIs(t, err, broken)
			}
			synctest.Wait()
			<-time.After(10 * time.Millisecond) // the engine's own row
			_, err = e.Generate(t.Context(), ask)
			require.ErrorIs(t, err, pipeline.ErrFailing)
			assert.Zero(t, e.Stats().Routes)
			<-time.After(5 * time.Second) // two tries that fail
			_, err = e.Generate(t.Context(), ask)
			require.ErrorIs(t, err, pipeline.ErrFailing)

			ill.Store(false)
			<-time.After(4 * time.Second)
			got, err := e.Generate(t.Context(), ask)
			require.NoError(t, err)
			assert.Equal(t, want.Tokens, got.Tokens)
			n := e.Stats()
			assert.Equal(t, 1, n.Routes)
			assert.Zero(t, n.Running)
			assert.Equal(t, n.Pages, n.FreePages)
		}
		require.NoError(t, e.Close())
	})
}
