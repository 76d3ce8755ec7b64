package pipeline_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

var errCable = errors.New("a cable came off")

// patient is a layer that fails every batch while it is ill, and counts them.
type patient struct {
	ill   atomic.Bool
	mu    sync.Mutex
	times []time.Time // of batches
}

func (p *patient) layers() []stage.Layer {
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Batch = func(int) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.times = append(p.times, time.Now())
		if p.ill.Load() {
			return errCable
		}
		return nil
	}
	return layers
}

// taken returns the times of the batches so far.
func (p *patient) taken() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.times)
}

// A pipeline that is failing tries again by itself, after pauses that double up to a
// minute, and works again when a try passes.
func TestAPipelineRecoversByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(patient)
		var log bytes.Buffer
		line := open(t, p.layers(), pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithFailureLimit(3),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		row := []float32{1}
		for round := range 2 {
			p.ill.Store(true)
			before := len(p.taken())
			began := time.Now()
			for range 3 {
				_, err := line.Do(t.Context(), row)
				require.ErrorIs(t, err, errCable)
				require.NotErrorIs(t, err, pipeline.ErrFailing)
			}
			synctest.Wait()
			require.ErrorIs(t, line.Err(), pipeline.ErrFailing)
			<-time.After(200 * time.Second)
			synctest.Wait()
			var tries []time.Duration
			for _, at := range p.taken()[before+3:] {
				tries = append(tries, at.Sub(began))
			}
			const s = time.Second
			assert.Equal(t, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s}, tries)
			_, err := line.Do(t.Context(), row)
			require.ErrorIs(t, err, pipeline.ErrFailing)
			var f *pipeline.FailingError
			require.ErrorAs(t, err, &f)
			assert.Equal(t, 12, f.Batches)
			assert.Len(t, p.taken(), before+12, "calls are refused without a batch")

			p.ill.Store(false)
			<-time.After(time.Minute)
			synctest.Wait()
			require.NoError(t, line.Err(), "in round %d", round)
			y, err := line.Do(t.Context(), row)
			require.NoError(t, err)
			assert.Equal(t, mixed(mixing(1, 1), row, 1), y)
		}
		assert.Contains(t, log.String(), `level=ERROR msg="pipeline failing" batches=4`)
		assert.Contains(t, log.String(), "pipeline works again")
		p.ill.Store(true)
		for range 3 {
			_, _ = line.Do(t.Context(), row)
		}
		synctest.Wait()
		require.ErrorIs(t, line.Err(), pipeline.ErrFailing)
		began := time.Now()
		require.NoError(t, line.Close())
		assert.Zero(t, time.Since(began), "Close doesn't wait for the pause")
	})
}

// observed is a line of one layer with two replicas, the second of which fails while
// it is told to, and what its handler was told.
type observed struct {
	*pipeline.Line
	t        *testing.T
	ill      atomic.Bool
	finished chan *stage.Batch
	mu       sync.Mutex
	changed  []int
}

func observe(t *testing.T, options ...pipeline.Option) *observed {
	o := &observed{t: t, finished: make(chan *stage.Batch, 8)}
	layers := marking(1)
	layers[0].(*marked).batch = func(copy int) error {
		if copy == 1 && o.ill.Load() {
			return errCable
		}
		return nil
	}
	options = append([]pipeline.Option{pipeline.WithDevices("cpu:0|cpu:0"), pipeline.WithFailureLimit(2), pipeline.WithInFlight(2)}, options...)
	plan, err := pipeline.NewPlan(t.Context(), layers, options...)
	require.NoError(t, err)
	o.Line, err = pipeline.OpenLine(t.Context(), plan, pipeline.Handler{
		Finished: func(b *stage.Batch) { o.finished <- b },
		Changed: func(route int) {
			_ = o.Err() // no lock is held
			o.mu.Lock()
			defer o.mu.Unlock()
			o.changed = append(o.changed, route)
		},
	})
	require.NoError(t, err)
	return o
}

// pass sends a batch by a route, as a probe if probe says so, and returns its error.
func (o *observed) pass(route int, probe bool) error {
	b := <-o.Free()
	b.Route = route
	if probe {
		require.True(o.t, o.Probe(b, route))
	}
	b.Header.Append(1, 0, 0, true)
	require.NoError(o.t, o.Submit(o.t.Context(), b))
	b = <-o.finished
	defer o.Release(b)
	return b.Err()
}

// told is what Changed was called with since the last time.
func (o *observed) told() []int {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.changed
	o.changed = nil
	return told
}

// One route that fails is nothing to the other.
func TestARouteIsJudgedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := observe(t, pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		o.ill.Store(true)
		require.ErrorIs(t, o.pass(1, false), errCable)
		assert.Empty(t, o.told(), "one failure is none of the route's")
		assert.True(t, o.Working(1))
		assert.Zero(t, o.Pick(), "though it rests")
		assert.Zero(t, o.Pick())
		require.ErrorIs(t, o.pass(1, false), errCable)
		assert.Equal(t, []int{1}, o.told())
		assert.False(t, o.Working(1))
		assert.True(t, o.Due(1))
		assert.NoError(t, o.RouteErr(1), "it is only under suspicion")
		assert.Equal(t, 1, o.WorkingRoutes())
		for range 20 {
			assert.Zero(t, o.Pick())
		}

		// It was the requests.
		o.ill.Store(false)
		require.NoError(t, o.pass(1, true))
		assert.Equal(t, []int{1}, o.told())
		assert.True(t, o.Working(1))
		assert.False(t, o.Due(1))

		// It is the route.
		o.ill.Store(true)
		for range 2 {
			require.ErrorIs(t, o.pass(1, false), errCable)
		}
		require.ErrorIs(t, o.pass(1, true), errCable)
		assert.Equal(t, []int{1, 1}, o.told())
		require.ErrorIs(t, o.RouteErr(1), pipeline.ErrFailing)
		require.ErrorIs(t, o.RouteErr(1), errCable)
		assert.False(t, o.Due(1))
		assert.NoError(t, o.RouteErr(0))
		assert.NoError(t, o.Err())
		assert.Contains(t, log.String(), `level=ERROR msg="route failing" route=1 batches=3`)

		<-time.After(time.Second)
		assert.Equal(t, []int{1}, o.told(), "after a pause it is due again,")
		assert.True(t, o.Due(1))
		assert.ErrorIs(t, o.RouteErr(1), pipeline.ErrFailing, "and failing until it passes")

		// A probe that was never sent is due again.
		b := <-o.Free()
		require.True(t, o.Probe(b, 1))
		assert.Equal(t, 1, b.Route)
		other := <-o.Free()
		assert.False(t, o.Due(1))
		assert.False(t, o.Probe(other, 1), "one is enough")
		o.Release(other)
		o.Release(b)
		assert.Equal(t, []int{1}, o.told())
		assert.True(t, o.Due(1))

		// A batch that isn't the probe doesn't make it worse, and one that passes
		// makes it work.
		require.ErrorIs(t, o.pass(1, false), errCable)
		assert.True(t, o.Due(1))
		o.ill.Store(false)
		require.NoError(t, o.pass(1, false))
		assert.Equal(t, []int{1}, o.told())
		assert.True(t, o.Working(1))
		assert.NoError(t, o.RouteErr(1))
		assert.Contains(t, log.String(), `msg="pipeline works again" route=1`)
		require.NoError(t, o.Close())
	})
}

// After Close nothing is said any more, also where a pause was under way.
func TestNothingIsSaidAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t)
		o.ill.Store(true)
		for range 2 {
			require.ErrorIs(t, o.pass(1, false), errCable)
		}
		require.ErrorIs(t, o.pass(1, true), errCable)
		assert.Equal(t, []int{1, 1}, o.told())
		require.NoError(t, o.Close())
		<-time.After(time.Hour)
		assert.Empty(t, o.told())
	})
}

// Where all routes fail, the error says why each does.
func TestAllRoutesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layers := marking(1)
		layers[0].(*marked).batch = func(int) error { return errCable }
		layers[0].(*marked).Width = 1
		p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu:0|cpu:0"), pipeline.WithFailureLimit(2))
		require.NoError(t, err)
		for p.Err() == nil {
			_, err := p.Do(t.Context(), make([]float32, 1))
			require.ErrorIs(t, err, errCable)
			synctest.Wait()
		}
		require.ErrorIs(t, p.Err(), pipeline.ErrFailing)
		layers[0].(*marked).batch = nil
		assert.NoError(t, p.Warmup(t.Context()), "it is sent all the same")
		assert.NoError(t, p.Err())
		require.NoError(t, p.Close())
	})
}
