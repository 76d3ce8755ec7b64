package generate

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
)

// closer is a model that says how it was closed.
type closer struct{ err error }

func (c closer) Close() error { return c.err }

// engine starts an engine on the small model inside the repository.
func engine(t *testing.T, options ...Option) (*Engine, error) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	return New(t.Context(), m, append(options, pipeline.WithDevices("cpu:0"))...)
}

// Open returns an engine or an error, whatever fails, and leaves no engine behind.
func TestOpenReturnsAnEngineOrAnError(t *testing.T) {
	broken := errors.New("the disk is gone")
	var made *Engine
	start := func() (e *Engine, err error) {
		made, err = engine(t)
		return made, err
	}
	e, err := started(closer{broken}, start)
	assert.Nil(t, e)
	require.ErrorIs(t, err, broken)
	assert.ErrorIs(t, made.Err(), ErrClosed, "the engine was closed")

	wrong := errors.New("it does not start")
	for _, closing := range []error{nil, broken} {
		e, err = started(closer{closing}, func() (*Engine, error) { return nil, wrong })
		assert.Nil(t, e)
		assert.ErrorIs(t, err, wrong)
	}
	e, err = started(closer{}, start)
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

// closing returns how long Close takes with n waiting requests, of which half are in
// the scheduler and half beyond the backlog.
func closing(t *testing.T, n int) time.Duration {
	t.Helper()
	e, err := engine(t, pipeline.WithBacklog(n/2), WithMaxSeqs(1))
	require.NoError(t, err)
	for range n {
		r, err := e.request(Request{Tokens: []int32{1, 403, 407}, IgnoreEnd: true, Sampler: patient{}})
		require.NoError(t, err)
		require.NoError(t, e.begin(r, true))
	}
	s := e.Stats()
	require.Greater(t, s.Waiting, n-3)
	began := time.Now()
	require.NoError(t, e.Close())
	took := time.Since(began)
	s = e.Stats()
	assert.Zero(t, s.Running+s.Waiting)
	assert.EqualValues(t, n, s.Failed)
	return took
}

// patient is a sampler that nobody calls, since nobody takes the request's steps.
type patient struct{}

func (patient) Sample([]float32, []int32) (int32, error) { return 0, nil }

// Close takes a time that grows with the number of requests that wait, and no faster.
func TestCloseWithManyWaiting(t *testing.T) {
	few, many := closing(t, 10_000), closing(t, 100_000)
	t.Logf("10,000 requests: %v, 100,000: %v", few, many)
	assert.Less(t, many, 40*few+time.Second, "ten times as many")
}

// Requests whose callers give up while the backlog is full leave nothing behind.
func TestBlockedRequestsThatGiveUp(t *testing.T) {
	e, err := engine(t, pipeline.WithBacklog(1), WithMaxSeqs(1))
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	begin := func() *request {
		r, err := e.request(Request{Tokens: []int32{1, 403}, IgnoreEnd: true, Sampler: patient{}})
		require.NoError(t, err)
		require.NoError(t, e.begin(r, true))
		return r
	}
	begin() // runs
	begin() // waits
	first := begin()
	for range 10_000 {
		e.cancel(begin())
	}
	last := begin()
	e.mu.Lock()
	assert.Equal(t, 2, e.blocked.n)
	assert.Less(t, len(e.blocked.queue), 100)
	assert.Same(t, first, e.blocked.pop())
	assert.Same(t, last, e.blocked.pop())
	assert.Nil(t, e.blocked.pop())
	e.mu.Unlock()
}
