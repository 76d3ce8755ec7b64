package pipeline_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
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

func TestALineNeedsAHandler(t *testing.T) {
	plan, err := pipeline.NewPlan(t.Context(), doubling(1), pipeline.WithDevices("cpu"))
	require.NoError(t, err)
	_, err = pipeline.OpenLine(t.Context(), plan, pipeline.Handler{})
	assert.ErrorContains(t, err, "Handler")
}

// A handler that sends the next batch itself keeps the line busy until it is closed;
// every batch that was sent is handed over once, before Close returns.
func TestAHandlerSendsTheNextBatch(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu/2", "cpu:0|cpu:0,cpu:0"} {
		t.Run(devices, func(t *testing.T) {
			plan, err := pipeline.NewPlan(t.Context(), marking(2), pipeline.WithDevices(stagetest.Devices(t, devices)), pipeline.WithMaxBatch(4), pipeline.WithInFlight(6))
			require.NoError(t, err)
			var line *pipeline.Line
			var sent, finished, full atomic.Int64
			closing := make(chan struct{})
			next := func(b *stage.Batch) {
				for i := range 3 {
					b.Header.Append(int32(i), 0, 0, true)
				}
				sent.Add(1)
				switch ok, err := line.TrySubmit(b); {
				case err != nil:
					assert.ErrorIs(t, err, pipeline.ErrClosed)
					sent.Add(-1)
					line.Release(b)
				case !ok:
					sent.Add(-1)
					full.Add(1)
					line.Release(b)
				}
			}
			line, err = pipeline.OpenLine(t.Context(), plan, pipeline.Handler{Finished: func(b *stage.Batch) {
				assert.NoError(t, b.Err())
				if finished.Add(1) == 500 {
					close(closing)
				}
				route := b.Route
				line.Release(b)
				select {
				case b := <-line.Free():
					b.Route = route
					next(b)
				default:
				}
			}})
			require.NoError(t, err)
			var submitting sync.WaitGroup
			submitting.Go(func() { // one that blocks, and holds nobody up
				for {
					b := <-line.Free()
					b.Header.Append(1, 0, 0, true)
					b.Route = int(sent.Add(1)) % plan.Routes()
					if err := line.Submit(context.Background(), b); err != nil {
						sent.Add(-1)
						line.Release(b)
						return
					}
				}
			})
			<-closing
			require.NoError(t, line.Shutdown(t.Context()))
			submitting.Wait()
			assert.Equal(t, sent.Load(), finished.Load())
			assert.Len(t, line.Free(), plan.InFlight()*plan.Routes(), "all are back")
		})
	}
}

// Who found no room is told when there is some.
func TestRoomIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		plan, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithInFlight(5), pipeline.WithQueue(2))
		require.NoError(t, err)
		var line *pipeline.Line
		var waiting []*stage.Batch
		var mu sync.Mutex
		rooms := 0
		line, err = pipeline.OpenLine(t.Context(), plan, pipeline.Handler{
			Finished: func(b *stage.Batch) { line.Release(b) },
			Room: func(route int) {
				mu.Lock()
				defer mu.Unlock()
				assert.Zero(t, route)
				rooms++
				for len(waiting) > 0 {
					if sent, err := line.TrySubmit(waiting[0]); err != nil || !sent {
						return
					}
					waiting = waiting[1:]
				}
			},
		})
		require.NoError(t, err)
		for i := range 5 {
			b := <-line.Free()
			b.Header.Append(0, 0, 0, true)
			mu.Lock()
			sent, err := line.TrySubmit(b)
			require.NoError(t, err)
			assert.Equal(t, i < 3, sent, "the stage has one, and two wait for it")
			if !sent {
				waiting = append(waiting, b)
			}
			mu.Unlock()
			synctest.Wait()
		}
		for i := range 5 {
			pass <- nil
			synctest.Wait()
			mu.Lock()
			assert.Equal(t, min(i+1, 2), rooms, "not when nobody looked for it")
			assert.Len(t, waiting, max(0, 1-i))
			mu.Unlock()
		}
		assert.Len(t, line.Free(), 5)
		require.NoError(t, line.Close())
		assert.EqualValues(t, 5, line.Stats().Rows.Count(), "a batch that found no room at first counts once")
	})
}

// A handler or an observer that panics, or ends its goroutine, ends the program at
// once and says so: nobody waits for ever.
func TestAHandlerThatPanics(t *testing.T) {
	faults := map[string]func(){"panic": func() { panic("oh dear") }, "goexit": runtime.Goexit}
	want := map[string]string{"panic": "panic: oh dear", "goexit": "called runtime.Goexit"}
	const variable = "LEAT_TEST_HANDLER"
	places := []string{"handler", "worked", "filled", "emptied"}
	for _, where := range places {
		for name, fault := range faults {
			if os.Getenv(variable) != where+name {
				continue
			}
			observer := telling(func(method string) {
				if method == where {
					fault()
				}
			})
			if where != "handler" {
				p, err := pipeline.New(t.Context(), mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithObserver(observer))
				require.NoError(t, err)
				_, err = p.Do(t.Context(), make([]float32, 1))
				assert.NoError(t, err)
				<-time.After(time.Minute)
			}
			plan, err := pipeline.NewPlan(t.Context(), doubling(1), pipeline.WithDevices("cpu"))
			require.NoError(t, err)
			line, err := pipeline.OpenLine(t.Context(), plan, pipeline.Handler{Finished: func(*stage.Batch) { fault() }})
			require.NoError(t, err)
			b := <-line.Free()
			b.Header.Append(1, 0, 0, true)
			require.NoError(t, line.Submit(t.Context(), b))
			<-time.After(time.Minute)
		}
	}
	if os.Getenv(variable) != "" {
		return
	}
	for _, where := range places {
		for name := range faults {
			c := exec.Command(os.Args[0], "-test.run=^TestAHandlerThatPanics$")
			c.Env = append(os.Environ(), variable+"="+where+name)
			out, err := c.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v", err)
			assert.Contains(t, string(out), want[name], "%s %s", where, name)
		}
	}
}
