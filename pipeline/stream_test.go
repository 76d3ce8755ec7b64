package pipeline_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
)

var errInput = errors.New("an unreadable line")

// elements is n elements of 0 to 9 rows; each tenth is an error.
func elements(n, width int) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		r := rand.New(rand.NewPCG(7, 7))
		for i := range n {
			x, err := random(r, r.IntN(10)*width), error(nil)
			if i%10 == 3 {
				x, err = nil, errInput
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

func TestMapIsInOrder(t *testing.T) {
	layers := mixing(3, 5, 2)
	for _, ahead := range []int{0, 1, 7} {
		p := open(t, layers, pipeline.WithInput(3), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithMaxBatch(16), pipeline.WithBacklog(3), pipeline.WithAhead(ahead))
		for range 2 { // a stream can be taken again
			next, stop := iter.Pull2(elements(300, 3))
			for y, err := range p.MapErr(t.Context(), elements(300, 3)) {
				x, failed, ok := next()
				require.True(t, ok)
				require.Equal(t, failed, err)
				if err == nil && len(x) > 0 {
					require.Equal(t, mixed(layers, x, 3), y)
				} else {
					require.Empty(t, y)
				}
			}
			_, _, ok := next()
			assert.False(t, ok, "one result an element")
			stop()
		}
	}
}

func TestMapUnorderedPairsResultsWithElements(t *testing.T) {
	layers := mixing(3, 5, 2)
	p := open(t, layers, pipeline.WithInput(3), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithMaxBatch(16), pipeline.WithBacklog(3))
	type element struct {
		x   []float32
		err error
	}
	var all []element
	for x, err := range elements(300, 3) {
		all = append(all, element{x, err})
	}
	seen := map[int]bool{}
	for r, err := range p.MapUnorderedErr(t.Context(), elements(300, 3)) {
		require.Equal(t, all[r.Index].err, err)
		assert.False(t, seen[r.Index])
		seen[r.Index] = true
		if err == nil && len(r.X) > 0 {
			require.Equal(t, all[r.Index].x, r.X)
			require.Equal(t, mixed(layers, r.X, 3), r.Y)
		}
	}
	assert.Len(t, seen, 300)
}

// rows yields elements of one row that hold their number.
func rows(read *atomic.Int64) iter.Seq[[]float32] {
	return func(yield func([]float32) bool) {
		for {
			if i := read.Add(1) - 1; !yield([]float32{float32(i)}) {
				return
			}
		}
	}
}

func TestMapReadsAheadSoFarAndLeavesNothing(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			pass, layers := gate(1)
			p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithMaxBatch(4), pipeline.WithAhead(20))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var read atomic.Int64
			each := func(yield func(error) bool) {
				if ordered {
					for _, err := range p.Map(ctx, rows(&read)) {
						if !yield(err) {
							return
						}
					}
				} else {
					for _, err := range p.MapUnordered(ctx, rows(&read)) {
						if !yield(err) {
							return
						}
					}
				}
			}
			go func() {
				synctest.Wait()
				// One more is read than may be on its way; it waits.
				assert.EqualValues(t, 21, read.Load())
				pass <- nil
			}()
			for err := range each {
				require.NoError(t, err)
				break // with a batch stuck in the stage
			}

			ended := make(chan struct{})
			go func() {
				defer close(ended)
				n := 0
				for err := range each {
					assert.ErrorIs(t, err, context.Canceled)
					n++
				}
				assert.Equal(t, 1, n, "the end of ctx is the last thing")
			}()
			synctest.Wait()
			cancel()
			<-ended

			ctx = t.Context()
			ended = make(chan struct{})
			go func() {
				defer close(ended)
				for err := range each {
					assert.ErrorIs(t, err, pipeline.ErrClosed)
				}
			}()
			synctest.Wait()
			closed := make(chan error)
			go func() { closed <- p.Close() }()
			<-ended
			pass <- nil // what is stuck
			require.NoError(t, <-closed)
		})
	}
}

// Results come as they are ready, also while xs has nothing to read.
func TestMapWithAnInputThatNeedsItsResults(t *testing.T) {
	p := open(t, mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")))
	answers := make(chan float32, 1)
	answers <- 1
	talk := func(yield func([]float32) bool) {
		for range 10 {
			if !yield([]float32{<-answers}) {
				return
			}
		}
	}
	n := 0
	for y, err := range p.Map(t.Context(), talk) {
		require.NoError(t, err)
		answers <- y[0]
		n++
	}
	assert.Equal(t, 10, n)
}

func TestMapAfterClose(t *testing.T) {
	p := open(t, mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")))
	require.NoError(t, p.Close())
	var errs []error
	for _, err := range p.Map(t.Context(), rows(new(atomic.Int64))) {
		errs = append(errs, err)
	}
	assert.Equal(t, []error{pipeline.ErrClosed}, errs)
}

func TestAFailedElementIsFollowedByOthers(t *testing.T) {
	layers := mixing(1, 1)
	layers[0].(*stagetest.Rows).Row = func(out, in []float32) error {
		if out[0] = in[0]; in[0] == 5 {
			return stagetest.ErrFail
		}
		return nil
	}
	p := open(t, layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithMaxBatch(1))
	i := 0
	for y, err := range p.Map(t.Context(), rows(new(atomic.Int64))) {
		if i == 5 {
			require.ErrorIs(t, err, stagetest.ErrFail)
			require.Nil(t, y)
		} else {
			require.NoError(t, err)
			require.Equal(t, []float32{float32(i)}, y)
		}
		if i++; i == 10 {
			break
		}
	}
}

// What ends the reading of xs ends the loop in the same way.
func TestAPanicInXsIsTheLoops(t *testing.T) {
	p := open(t, mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")))
	n := 0
	assert.PanicsWithValue(t, "no more", func() {
		for range p.Map(t.Context(), func(yield func([]float32) bool) {
			yield([]float32{1})
			panic("no more")
		}) {
			n++
		}
	})
	assert.Equal(t, 1, n)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range p.Map(t.Context(), func(func([]float32) bool) { runtime.Goexit() }) {
			t.Error("a result")
		}
		t.Error("the loop went on")
	}()
	<-ended
}

// Whoever leaves the loop while the source blocks waits for it no longer than a second,
// and the source ends when it goes on.
func TestLeavingALoopWhoseSourceBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, mixing(1, 1), pipeline.WithInput(1), pipeline.WithDevices("cpu"))
		goOn, ended := make(chan struct{}), make(chan struct{})
		began := time.Now()
		for y, err := range p.Map(t.Context(), func(yield func([]float32) bool) {
			defer close(ended)
			assert.True(t, yield([]float32{1}))
			<-goOn
			assert.False(t, yield([]float32{2}), "nobody wants it")
		}) {
			assert.NoError(t, err)
			assert.NotEmpty(t, y)
			break
		}
		assert.Equal(t, time.Second, time.Since(began))
		close(goOn)
		<-ended
		assert.EqualValues(t, 1, p.Stats().Calls)

		began = time.Now()
		for range p.Map(t.Context(), func(yield func([]float32) bool) {
			for yield([]float32{1}) {
				<-time.After(10 * time.Millisecond)
			}
		}) {
			break
		}
		assert.LessOrEqual(t, time.Since(began), 10*time.Millisecond, "one that goes on is waited for")
	})
}
