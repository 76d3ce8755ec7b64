package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

const insideError = "a layer, an observer or a handler can't wait until its own pipeline has ended"

// A layer or an observer that closes its pipeline gets an error in place of a deadlock,
// and the pipeline ends.
func TestClosingAPipelineFromWithin(t *testing.T) {
	for _, shutdown := range []bool{false, true} {
		for _, where := range []string{"layer", "worked", "filled", "emptied"} {
			synctest.Test(t, func(t *testing.T) {
				var p *pipeline.Pipeline
				var once sync.Once
				end := func(at string) {
					if at != where {
						return
					}
					once.Do(func() {
						if shutdown {
							assert.ErrorContains(t, p.Shutdown(t.Context()), insideError, where)
						} else {
							assert.ErrorContains(t, p.Close(), insideError, where)
						}
					})
				}
				layers := mixing(1, 1)
				layers[0].(*stagetest.Rows).Batch = func(int) error {
					end("layer")
					return nil
				}
				p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithObserver(telling(end)))
				require.NoError(t, err)
				_, err = p.Do(t.Context(), make([]float32, 1))
				if shutdown {
					assert.NoError(t, err)
				} else if err != nil { // its row may be back by then
					assert.ErrorIs(t, err, pipeline.ErrClosed)
				}
				assert.NoError(t, p.Close())
			})
		}
	}
}

// telling is an observer that says which of its methods was called.
type telling func(method string)

func (f telling) Filled(pipeline.Handling)  { f("filled") }
func (f telling) Worked(stage.Work)         { f("worked") }
func (f telling) Emptied(pipeline.Handling) { f("emptied") }

// So does a handler of a line, and a layer that closes the pipeline while it is closed.
func TestClosingALineFromWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line *pipeline.Line
		layers := []stage.Layer{closes{doubling(1)[0], func() { assert.ErrorContains(t, line.Close(), insideError) }}}
		plan, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices("cpu"))
		require.NoError(t, err)
		line, err = pipeline.OpenLine(t.Context(), plan, pipeline.Handler{Finished: func(b *stage.Batch) {
			assert.ErrorContains(t, line.Close(), insideError)
			line.Release(b)
		}})
		require.NoError(t, err)
		b := <-line.Free()
		b.Header.Append(1, 0, 0, true)
		require.NoError(t, line.Submit(t.Context(), b))
		assert.NoError(t, line.Close())
		assert.NoError(t, line.Shutdown(t.Context()))
		_, err = line.TrySubmit(stage.NewBatch(0, stage.Config{MaxRows: 1}))
		assert.ErrorIs(t, err, pipeline.ErrClosed)
	})
}

// closes is a layer whose runner does something when it is closed.
type closes struct {
	stage.Layer
	closing func()
}

func (l closes) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	return closesRunner{r, l.closing}, err
}

type closesRunner struct {
	stage.Runner
	closing func()
}

func (r closesRunner) Close() error {
	r.closing()
	return r.Runner.Close()
}

// A layer may close another pipeline than its own.
func TestALayerClosesAnotherPipeline(t *testing.T) {
	other, err := pipeline.New(t.Context(), mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices("cpu"))
	require.NoError(t, err)
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Batch = func(int) error { return other.Close() }
	p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"))
	_, err = p.Do(t.Context(), make([]float32, 1))
	assert.NoError(t, err)
	assert.ErrorIs(t, other.Err(), pipeline.ErrClosed)
}

// Close lets the layer at work end, and no other work on what is in flight.
func TestCloseDropsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		plan, err := pipeline.NewPlan(t.Context(), append(layers, mixing(1, 1, 1)[1]), pipeline.WithInput(1), pipeline.WithDevices("cpu:0@1,cpu:0@1"), pipeline.WithInFlight(4), pipeline.WithQueue(4))
		require.NoError(t, err)
		require.Len(t, plan.Stages, 2)
		l, err := startLine(t.Context(), plan)
		require.NoError(t, err)
		for i := range 4 {
			send(t, l, int32(i))
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, l.Line.Shutdown(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
		go func() {
			synctest.Wait()
			pass <- nil // the one that is at work
		}()
		require.NoError(t, l.Close())
		for range 4 {
			b := <-l.Done()
			assert.ErrorIs(t, b.Err(), stage.ErrClosed)
			assert.ErrorAs(t, b.Err(), new(*stage.Error))
		}
		assert.Equal(t, 1, l.WorkingRoutes(), "it says nothing about the route")
	})
}
