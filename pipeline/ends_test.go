package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func TestShutdownWaitsForCallsAndCloseEndsThem(t *testing.T) {
	for _, abort := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pass, layers := gate(1)
			p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(2), pipeline.WithBacklog(4))
			require.NoError(t, err)
			var calls, ending sync.WaitGroup
			do := func(rows int, want error) {
				calls.Go(func() {
					x := make([]float32, rows)
					y, err := p.Do(t.Context(), x)
					assert.ErrorIs(t, err, want)
					if want == nil {
						assert.Equal(t, mixed(layers, x, 1), y)
					}
				})
				synctest.Wait()
			}
			want := error(nil)
			if abort {
				want = pipeline.ErrClosed
			}
			do(2, want)
			do(3, want) // with the gatherer
			for range 4 {
				do(1, want)
			}
			do(1, pipeline.ErrClosed) // finds no place
			assert.NoError(t, p.Err())

			ending.Go(func() {
				if abort {
					assert.NoError(t, p.Close())
				} else {
					assert.NoError(t, p.Shutdown(t.Context()))
				}
			})
			synctest.Wait()
			assert.Equal(t, pipeline.ErrClosed, p.Err())
			_, err = p.Do(t.Context(), make([]float32, 1))
			assert.ErrorIs(t, err, pipeline.ErrClosed)
			_, err = p.TryDo(t.Context(), make([]float32, 1))
			assert.ErrorIs(t, err, pipeline.ErrClosed)
			_, err = p.Do(t.Context(), nil)
			assert.ErrorIs(t, err, pipeline.ErrClosed, "also without rows")
			assert.ErrorIs(t, p.DoInto(t.Context(), nil, nil), pipeline.ErrClosed)
			assert.ErrorIs(t, p.Warmup(t.Context()), pipeline.ErrClosed)
			if abort {
				calls.Wait() // before what is on its way comes back
				pass <- nil
			} else {
				for range 5 {
					pass <- nil
				}
				calls.Wait()
			}
			ending.Wait()
			assert.NoError(t, p.Shutdown(t.Context()))
			assert.NoError(t, p.Close())
		})
	}
}

func TestCloseWhileShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(2))
		require.NoError(t, err)
		var running sync.WaitGroup
		running.Go(func() {
			_, err := p.Do(t.Context(), make([]float32, 100))
			assert.ErrorIs(t, err, pipeline.ErrClosed)
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { assert.ErrorIs(t, p.Shutdown(ctx), context.Canceled) })
		running.Go(func() { assert.NoError(t, p.Shutdown(t.Context())) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		running.Go(func() { assert.NoError(t, p.Close()) })
		synctest.Wait()
		pass <- nil
		running.Wait()
	})
}

func TestAStageThatFailsEveryBatch(t *testing.T) {
	layers := mixing(1, 1, 1)
	broken := errors.New("a cable came off")
	var off atomic.Bool
	layers[1].(*stagetest.Rows).Batch = func(int) error {
		if off.Load() {
			return broken
		}
		return nil
	}
	var log bytes.Buffer
	p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithFailureLimit(3),
		pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	row := make([]float32, 1)

	for range 2 {
		off.Store(true)
		for range 3 {
			_, err := p.Do(t.Context(), row)
			require.ErrorIs(t, err, broken)
			assert.NotErrorIs(t, err, pipeline.ErrFailing)
		}
		// The pipeline has tried a row of its own by now, or does before this one.
		_, err := p.Do(t.Context(), row)
		require.ErrorIs(t, err, pipeline.ErrFailing)
		assert.ErrorIs(t, err, broken)
		var f *pipeline.FailingError
		require.ErrorAs(t, err, &f)
		assert.Equal(t, 4, f.Batches)
		var at *stage.Error
		require.ErrorAs(t, err, &at)
		assert.Equal(t, 1, at.Stage)
		assert.ErrorIs(t, p.Err(), pipeline.ErrFailing)

		assert.ErrorIs(t, p.Warmup(t.Context()), broken)
		assert.ErrorIs(t, p.Err(), pipeline.ErrFailing)
		off.Store(false)
		assert.NoError(t, p.Warmup(t.Context()))
		assert.NoError(t, p.Err())
		_, err = p.Do(t.Context(), row)
		assert.NoError(t, err)
	}
	assert.Contains(t, log.String(), `level=WARN msg="batch failed"`)
	assert.Contains(t, log.String(), `level=ERROR msg="pipeline failing" batches=4`)
	assert.Contains(t, log.String(), "a cable came off")
	assert.Contains(t, log.String(), "pipeline works again")

	off.Store(true)
	for range 4 {
		_, _ = p.Do(t.Context(), row)
	}
	assert.ErrorIs(t, p.Err(), pipeline.ErrFailing)
	assert.NoError(t, p.Close(), "it can be closed then too")
}

// sensitive is a layer that fails on negative numbers.
func sensitive() []stage.Layer {
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Row = func(out, in []float32) error {
		if out[0] = in[0]; in[0] < 0 {
			return stagetest.ErrFail
		}
		return nil
	}
	return layers
}

// Callers whose rows make the layers fail don't take the pipeline from others.
func TestBadRowsAreNotAFailingStage(t *testing.T) {
	layers := sensitive()
	p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithFailureLimit(2))
	for range 10 {
		_, err := p.Do(t.Context(), []float32{-1})
		assert.ErrorIs(t, err, stagetest.ErrFail)
		assert.NotErrorIs(t, err, pipeline.ErrFailing)
	}
	y, err := p.Do(t.Context(), []float32{4})
	assert.NoError(t, err)
	assert.Equal(t, []float32{4}, y)

	p = open(t, layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithFailureLimit(0))
	for range 20 {
		_, err := p.Do(t.Context(), []float32{-1})
		assert.ErrorIs(t, err, stagetest.ErrFail)
	}
	assert.EqualValues(t, 20, p.Stats().Batches, "without a limit nothing is tried")
}

func TestWarmupFillsEveryBatch(t *testing.T) {
	p := open(t, mixing(2, 3, 4, 5), pipeline.WithInput(2), pipeline.WithDevices(stagetest.Devices(t, "cpu/3")), pipeline.WithMaxBatch(50), pipeline.WithInFlight(5))
	require.NoError(t, p.Warmup(t.Context()))
	for _, s := range p.Stats().Stages {
		assert.EqualValues(t, 5, s.Batches)
		assert.EqualValues(t, 250, s.Rows)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, p.Warmup(ended), context.Canceled)
}

func TestLog(t *testing.T) {
	var log bytes.Buffer
	p, err := pipeline.New(t.Context(), mixing(2, 3, 4), pipeline.WithInput(2), pipeline.WithDevices("cpu/2"),
		pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.NoError(t, err)
	assert.Contains(t, log.String(), `msg="stage loaded" stage=1 layers="block 1"`)
	assert.Contains(t, log.String(), `msg="pipeline started" stages=2 inflight=2 max_batch=512`)
	require.NoError(t, p.Close())
	assert.Contains(t, log.String(), `level=DEBUG msg="pipeline closed"`)
}
