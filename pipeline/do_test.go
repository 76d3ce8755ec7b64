package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// mixing is layers from rows of the first width to rows of the others: each
// number that comes out depends on all of the row, with a sum of a fixed order.
func mixing(widths ...int) (layers []stage.Layer) {
	for i := range widths[1:] {
		layers = append(layers, &stagetest.Rows{
			Called: fmt.Sprintf("block %d", i),
			Width:  widths[i+1],
			Row: func(out, in []float32) error {
				for j := range out {
					out[j] = 0
					for k, x := range in {
						out[j] += float32(x * float32((7*j+3*k+i)%11-5) / 8)
					}
				}
				return nil
			},
			Costs: packer.Cost{Fixed: 1},
		})
	}
	return layers
}

// mixed is what the layers make of rows, computed directly.
func mixed(layers []stage.Layer, x []float32, width int) []float32 {
	for _, l := range layers {
		var y []float32
		for row := range slices.Chunk(x, width) {
			out := make([]float32, l.Shape().Width)
			_ = l.(*stagetest.Rows).Row(out, row)
			y = append(y, out...)
		}
		x, width = y, l.Shape().Width
	}
	return x
}

// random is n numbers.
func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32() - 0.5
	}
	return x
}

// open makes a pipeline that the test's end closes.
func open(t testing.TB, layers []stage.Layer, options ...pipeline.Option) *pipeline.Pipeline {
	p, err := pipeline.New(t.Context(), layers, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

func TestDoIsWhatTheLayersCompute(t *testing.T) {
	seeds, failures := uint64(40), int64(0)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 0))
		widths := []int{1 + r.IntN(20)}
		for range 1 + r.IntN(6) {
			widths = append(widths, 1+r.IntN(20))
		}
		layers := mixing(widths...)
		options := []pipeline.Option{
			pipeline.WithInput(widths[0]),
			pipeline.WithDevices(stagetest.Devices(t, fmt.Sprintf("cpu/%d", 1+r.IntN(4)))),
			pipeline.WithMaxBatch(1 + r.IntN(40)),
			pipeline.WithInFlight(r.IntN(6)),
			pipeline.WithBacklog(1 + r.IntN(10)),
			pipeline.WithMaxWait(time.Duration(r.IntN(2)) * 50 * time.Microsecond),
			pipeline.WithFailureLimit(r.IntN(4)),
		}
		if seed%2 == 1 { // some rows make their batch fail
			last := layers[len(layers)-1].(*stagetest.Rows)
			mix := last.Row
			last.Row = func(out, in []float32) error {
				if err := mix(out, in); err != nil || in[0] > -0.002 || in[0] < -0.003 {
					return err
				}
				return stagetest.ErrFail
			}
		}
		name := fmt.Sprintf("seed %d: widths %v", seed, widths)
		p, err := pipeline.New(t.Context(), layers, options...)
		require.NoError(t, err, name)
		assert.Equal(t, widths[0], p.Input())
		assert.Equal(t, widths[len(widths)-1], p.Output())
		var callers sync.WaitGroup
		for caller := range 1 + r.IntN(12) {
			r := rand.New(rand.NewPCG(seed, uint64(caller)+1))
			callers.Go(func() {
				for range 20 {
					x := random(r, r.IntN(100)*widths[0])
					want := mixed(layers, x, widths[0])
					ctx, cancel := context.WithCancel(t.Context())
					if r.IntN(3) == 0 {
						go cancel()
					}
					dst := make([]float32, len(want))
					err := p.DoInto(ctx, dst, x)
					cancel()
					if err == nil {
						assert.True(t, slices.Equal(want, dst), name) // the same bits, whatever shared its batches
						continue
					}
					if !errors.Is(err, stagetest.ErrFail) {
						assert.ErrorIs(t, err, context.Canceled, name)
					}
					assert.NotErrorIs(t, err, pipeline.ErrFailing, name) // rows of zeros pass
					clear(dst)
					clear(x) // both are the caller's own again: the race detector would see another's touch
				}
			})
		}
		callers.Wait()
		failures += p.Stats().Failures
		assert.NoError(t, p.Close(), name)
	}
	assert.Positive(t, failures)
}

// gate is layers of one stage that let a batch pass for every value sent.
func gate(width int) (chan error, []stage.Layer) {
	pass := make(chan error)
	layers := mixing(width, width)
	layers[0].(*stagetest.Rows).Batch = func(int) error { return <-pass }
	return pass, layers
}

func TestCallsMadeAtTheSameTimeShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(2)
		p := open(t, layers, pipeline.WithInput(2), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(30))
		var callers sync.WaitGroup
		call := func(rows int) {
			callers.Go(func() {
				x := random(rand.New(rand.NewPCG(1, 2)), 2*rows)
				y, err := p.Do(t.Context(), x)
				assert.NoError(t, err)
				assert.Equal(t, mixed(layers, x, 2), y)
			})
		}
		call(1)
		synctest.Wait()
		for range 20 {
			call(1)
		}
		call(50) // 70 rows wait: 30, 30 and 10
		synctest.Wait()
		assert.Equal(t, 20, p.Stats().Waiting, "one is with the gatherer")
		for range 4 {
			pass <- nil
		}
		callers.Wait()
		s := p.Stats()
		assert.EqualValues(t, 22, s.Calls)
		assert.EqualValues(t, 4, s.Batches)
		assert.EqualValues(t, 4, s.Stages[0].Batches)
		assert.EqualValues(t, 71, s.Stages[0].Rows)
	})
}

// A call of many rows is cut into as many parts as there are stages, so that all
// of them work on it; rows that are few stay together.
func TestRowsAreSharedOutAmongStages(t *testing.T) {
	for rows, batches := range map[int]int64{1: 1, 16: 1, 32: 2, 64: 4, 400: 4, 800: 8} {
		p := open(t, mixing(3, 4, 5, 6, 7), pipeline.WithInput(3), pipeline.WithDevices(stagetest.Devices(t, "cpu/4")), pipeline.WithMaxBatch(100))
		_, err := p.Do(t.Context(), make([]float32, 3*rows))
		require.NoError(t, err)
		assert.Equal(t, batches, p.Stats().Batches, "%d rows", rows)
	}
}

func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, mixing(2, 3), pipeline.WithInput(2), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(4), pipeline.WithMaxWait(time.Hour))
		began := time.Now()
		_, err := p.Do(t.Context(), make([]float32, 2))
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began), "a row alone waits for others")

		began = time.Now()
		_, err = p.Do(t.Context(), make([]float32, 8))
		require.NoError(t, err)
		assert.Zero(t, time.Since(began), "a full batch doesn't wait")

		began = time.Now()
		_, err = p.Do(t.Context(), make([]float32, 10))
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began), "nor does a part that fills one; the rest does")

		began = time.Now()
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				<-time.After(time.Duration(i) * 25 * time.Minute)
				_, err := p.Do(t.Context(), make([]float32, 2))
				assert.NoError(t, err)
				assert.Equal(t, time.Hour, time.Since(began), "it counts from the first row on")
			})
		}
		callers.Wait()
		for range 4 {
			callers.Go(func() {
				_, err := p.Do(t.Context(), make([]float32, 2))
				assert.NoError(t, err)
			})
		}
		callers.Wait()
		assert.Equal(t, time.Hour, time.Since(began), "four fill each other's batch")
		assert.EqualValues(t, 6, p.Stats().Batches)
	})
}

func TestAFullBacklogBlocksOrIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithBacklog(2))
		var callers sync.WaitGroup
		do := func(ctx context.Context, want error) {
			callers.Go(func() {
				_, err := p.Do(ctx, make([]float32, 1))
				assert.ErrorIs(t, err, want)
			})
			synctest.Wait()
		}
		do(t.Context(), nil) // on its way
		do(t.Context(), nil) // with the gatherer, which waits for a free batch
		leaves, leave := context.WithCancel(t.Context())
		do(leaves, context.Canceled)
		do(t.Context(), nil)
		assert.Equal(t, 2, p.Stats().Waiting)
		_, err := p.TryDo(t.Context(), make([]float32, 1))
		assert.ErrorIs(t, err, pipeline.ErrBusy)
		blocked, end := context.WithCancel(t.Context())
		do(blocked, context.Canceled)
		end()
		synctest.Wait()
		_, err = p.TryDo(t.Context(), make([]float32, 1))
		assert.ErrorIs(t, err, pipeline.ErrBusy)

		leave()
		synctest.Wait()
		assert.Equal(t, 1, p.Stats().Waiting, "who leaves gives up the place")
		callers.Go(func() {
			_, err := p.TryDo(t.Context(), make([]float32, 1))
			assert.NoError(t, err)
		})
		synctest.Wait()
		assert.Equal(t, 2, p.Stats().Waiting)
		pass <- nil
		pass <- nil
		callers.Wait()
	})
}

// A call whose context ends returns at once, wherever its rows are, and its
// memory isn't written to when they come back.
func TestCancelledCallsLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(4))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x, dst := []float32{1, 1, 1, 1, 1, 1}, make([]float32, 6)
		assert.ErrorIs(t, p.DoInto(ctx, dst, x), context.DeadlineExceeded)
		pass <- nil // the four rows on their way
		_, err := p.Do(ctx, x)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "before it has begun")

		go func() { pass <- nil }()
		y, err := p.Do(t.Context(), x[:1])
		require.NoError(t, err)
		assert.Equal(t, mixed(layers, x[:1], 1), y)
		assert.Equal(t, make([]float32, 6), dst)
		assert.EqualValues(t, 2, p.Stats().Batches, "the two rows left over were never sent")
	})
}

// Without isolation a failure ends all calls with rows in the batch, and no others.
func TestAFailureEndsTheCallsOfOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, layers := gate(1)
		layers[0].(*stagetest.Rows).Row = func(out, in []float32) error {
			if in[0] < 0 {
				panic("a negative number")
			}
			out[0] = in[0]
			return nil
		}
		p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(2), pipeline.WithIsolation(false))
		var callers sync.WaitGroup
		do := func(why string, x ...float32) {
			callers.Go(func() {
				y, err := p.Do(t.Context(), x)
				if why == "" {
					assert.NoError(t, err)
					assert.Equal(t, x, y)
					return
				}
				var thrown *stage.Panic
				if why == "negative" && assert.ErrorAs(t, err, &thrown) {
					assert.Equal(t, "a negative number", thrown.Value)
				}
				var at *stage.Error
				if assert.ErrorAs(t, err, &at) {
					assert.Equal(t, "block 0", at.Layer)
					assert.ErrorContains(t, err, why)
				}
			})
			synctest.Wait()
		}
		do("", 1, 2)
		do("told to", 3)
		do("told to", 4)
		do("", 5)
		do("", 6)
		do("negative", 7, -1, 8, 9, 10) // its last three rows, in other batches, are of no use
		do("", 11)
		pass <- nil
		pass <- errors.New("told to fail")
		for range 3 {
			pass <- nil
		}
		go func() { // one more, if the rest of the failed call was sent before it failed
			select {
			case pass <- nil:
			case <-t.Context().Done():
			}
		}()
		callers.Wait()
		assert.EqualValues(t, 2, p.Stats().Failures)
		assert.NoError(t, p.Err())
	})
}

func TestDoRefusesWhatIsNotRows(t *testing.T) {
	p := open(t, mixing(3, 2), pipeline.WithInput(3), pipeline.WithDevices("cpu"))
	_, err := p.Do(t.Context(), make([]float32, 4))
	assert.ErrorContains(t, err, "4 numbers are not a whole number of rows of 3")
	assert.ErrorContains(t, p.DoInto(t.Context(), make([]float32, 3), make([]float32, 3)), "dst has length 3: the results are 1 rows of 2 numbers")
	y, err := p.Do(t.Context(), nil)
	assert.NoError(t, err)
	assert.Empty(t, y)

	_, err = pipeline.New(t.Context(), mixing(3, 2), pipeline.WithDevices("cpu"))
	assert.ErrorContains(t, err, "WithInput")
	_, err = pipeline.New(t.Context(), []stage.Layer{&stagetest.Rows{Called: "nothing"}}, pipeline.WithDevices("cpu"), pipeline.WithInput(3))
	assert.ErrorContains(t, err, "nothing, returns rows of 0 numbers")
}

// In the steady state a call costs no allocation, whoever else calls.
func TestDoIntoAllocatesNothing(t *testing.T) {
	const callers = 16
	p := open(t, mixing(4, 5, 6), pipeline.WithInput(4), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithMaxBatch(8))
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	begin, ended := make(chan struct{}), make(chan error)
	for i := range callers {
		x, dst := make([]float32, 4*(i+1)), make([]float32, 6*(i+1))
		working.Go(func() {
			for range begin {
				ended <- p.DoInto(ctx, dst, x)
			}
		})
	}
	together := func() {
		for range callers {
			begin <- struct{}{}
		}
		for range callers {
			if err := <-ended; err != nil {
				panic(err)
			}
		}
	}
	for range 50 {
		together()
	}
	assert.Zero(t, testing.AllocsPerRun(200, together))
	close(begin)
	working.Wait()
	x, dst := make([]float32, 4), make([]float32, 6)
	assert.Zero(t, testing.AllocsPerRun(200, func() { _ = p.DoInto(ctx, dst, x) }))
	cancel()
	assert.Zero(t, testing.AllocsPerRun(200, func() { _ = p.DoInto(ctx, dst, x) }), "nor one that ended before it began")
}
