package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
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

// harmful is a layer that fails on -1, panics on -2, and ends its goroutine on -3.
func harmful() []stage.Layer {
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Row = func(out, in []float32) error {
		switch out[0] = in[0] + 1; in[0] {
		case -1:
			return stagetest.ErrFail
		case -2:
			panic("oh dear")
		case -3:
			runtime.Goexit()
		}
		return nil
	}
	return layers
}

// Only calls whose rows make a layer fail do so, whoever shares their batches.
func TestOnlyTheGuiltyFail(t *testing.T) {
	for name, options := range map[string][]pipeline.Option{
		"one stage":          {pipeline.WithDevices("cpu")},
		"small batches":      {pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(3)},
		"replicas":           {pipeline.WithDevices("cpu:0|cpu:0")},
		"a low limit":        {pipeline.WithDevices("cpu"), pipeline.WithFailureLimit(2)},
		"many in flight":     {pipeline.WithDevices("cpu"), pipeline.WithInFlight(6)},
		"batches that waits": {pipeline.WithDevices("cpu"), pipeline.WithMaxWait(1)},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, harmful(), append(options, pipeline.WithInput(1))...)
			var callers sync.WaitGroup
			for caller := range 44 {
				r := rand.New(rand.NewPCG(1, uint64(caller)))
				callers.Go(func() {
					for range 50 {
						x := make([]float32, 1+r.IntN(5))
						for i := range x {
							x[i] = float32(r.IntN(100))
						}
						bad := caller < 4
						if bad {
							x[r.IntN(len(x))] = float32(-1 - r.IntN(3))
						}
						y, err := p.Do(t.Context(), x)
						if bad {
							assert.ErrorAs(t, err, new(*stage.Error))
							assert.NotErrorIs(t, err, pipeline.ErrFailing)
							continue
						}
						if assert.NoError(t, err) {
							for i := range x {
								assert.Equal(t, x[i]+1, y[i])
							}
						}
					}
				})
			}
			callers.Wait()
			assert.NoError(t, p.Err())
			assert.Positive(t, p.Stats().Failures)
		})
	}
}

// held opens a pipeline whose one stage works on a batch until the test lets it, and
// makes calls that wait meanwhile, each of one row. The test gets their errors.
func held(t *testing.T, failing func(x float32) error, rows []float32, options ...pipeline.Option) (*pipeline.Pipeline, func() []error) {
	t.Helper()
	var passing atomic.Bool
	pass := make(chan struct{})
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Batch = func(int) error {
		if !passing.Load() {
			<-pass
		}
		return nil
	}
	layers[0].(*stagetest.Rows).Row = func(out, in []float32) error {
		out[0] = in[0]
		return failing(in[0])
	}
	p := open(t, layers, append(options, pipeline.WithInput(1), pipeline.WithDevices("cpu"))...)
	errs := make([]error, len(rows))
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = p.Do(t.Context(), make([]float32, 1)) })
	synctest.Wait()
	for i, x := range rows {
		callers.Go(func() { _, errs[i] = p.Do(t.Context(), []float32{x}) })
	}
	synctest.Wait()
	return p, func() []error {
		passing.Store(true)
		close(pass)
		callers.Wait()
		return errs
	}
}

// How often a batch is tried again is bounded: by twice the logarithm of its calls
// for one guilty call, and by twice the calls for all of them.
func TestRetriesAreBounded(t *testing.T) {
	for bad, most := range map[int]int64{0: 0, 1: 10, 32: 62} {
		synctest.Test(t, func(t *testing.T) {
			rows := make([]float32, 32)
			for i := range bad {
				rows[(7*i+11)%32] = -1
			}
			p, release := held(t, func(x float32) error {
				if x < 0 {
					return stagetest.ErrFail
				}
				return nil
			}, rows, pipeline.WithFailureLimit(0))
			for i, err := range release() {
				if rows[i] < 0 {
					assert.ErrorIs(t, err, stagetest.ErrFail)
				} else {
					assert.NoError(t, err)
				}
			}
			assert.Equal(t, most, p.Stats().Retries)
			assert.Equal(t, 2+most, p.Stats().Batches)
		})
	}
}

// Without isolation a batch is computed once.
func TestIsolationCanBeTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := held(t, func(x float32) error {
			if x < 0 {
				return stagetest.ErrFail
			}
			return nil
		}, []float32{1, 2, -1, 3}, pipeline.WithIsolation(false))
		for _, err := range release() {
			assert.ErrorIs(t, err, stagetest.ErrFail)
		}
		assert.EqualValues(t, 2, p.Stats().Batches)
		assert.Zero(t, p.Stats().Retries)
	})
}

// A stage that fails whatever it is given is not tried for ever: when the row of the
// pipeline's own fails too, what is still to be tried again fails with its own error.
func TestRetriesOfAFailingPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("a cable came off")
		p, release := held(t, func(float32) error { return broken }, slices.Repeat([]float32{1}, 200), pipeline.WithFailureLimit(4))
		for _, err := range release() {
			assert.ErrorIs(t, err, broken)
		}
		assert.ErrorIs(t, p.Err(), pipeline.ErrFailing)
		assert.LessOrEqual(t, p.Stats().Batches, int64(6))
	})
}

// Rows that are to be tried again are neither lost when the pipeline is shut down,
// nor computed when their callers have given up.
func TestRetriesWhileThePipelineEnds(t *testing.T) {
	for _, leave := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pass, layers := gate(1)
			p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls sync.WaitGroup
			do := func(want error) {
				calls.Go(func() {
					_, err := p.Do(ctx, make([]float32, 1))
					assert.ErrorIs(t, err, want)
				})
			}
			want := error(nil)
			if leave {
				want = context.Canceled
			}
			do(want)
			synctest.Wait()
			for range 4 {
				do(want)
			}
			synctest.Wait()
			calls.Go(func() { assert.NoError(t, p.Shutdown(t.Context())) })
			synctest.Wait()
			if !leave {
				pass <- nil
				pass <- stagetest.ErrFail // the four calls; then two and two
				pass <- nil
				pass <- nil
				calls.Wait()
				assert.EqualValues(t, 4, p.Stats().Batches)
				return
			}
			cancel()
			synctest.Wait()
			pass <- stagetest.ErrFail
			calls.Wait()
			assert.EqualValues(t, 1, p.Stats().Batches)
		})
	}
}

// A call of many rows delays each of the others by one batch, not by all of its own.
func TestACallOfManyRowsLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(10))
		var large, small sync.WaitGroup
		for range 2 {
			large.Go(func() {
				x := random(rand.New(rand.NewPCG(1, 2)), 100_000)
				y, err := p.Do(t.Context(), x)
				assert.NoError(t, err)
				assert.Equal(t, mixed(layers, x, 1), y)
			})
		}
		synctest.Wait()
		for range 20 {
			pass <- nil
			for range 3 {
				small.Go(func() {
					x := []float32{3}
					y, err := p.Do(t.Context(), x)
					assert.NoError(t, err)
					assert.Equal(t, mixed(layers, x, 1), y)
				})
			}
			synctest.Wait()
			done := make(chan struct{})
			go func() {
				small.Wait()
				close(done)
			}()
			for range 4 { // the batch at work, one of each large call, and theirs
				pass <- nil
			}
			<-done
		}
		for {
			select {
			case pass <- nil:
				continue
			default:
			}
			synctest.Wait()
			select {
			case pass <- nil:
			default:
				large.Wait()
				return
			}
		}
	})
}
