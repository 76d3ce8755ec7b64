package pipeline_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/trace"
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

// lasting is a layer a time, which takes that long for a batch.
func lasting(times ...time.Duration) (layers []stage.Layer) {
	for i, d := range times {
		layers = append(layers, &stagetest.Rows{
			Called: fmt.Sprintf("block %d", i),
			Width:  1,
			Batch:  func(int) error { <-time.After(d); return nil },
			Costs:  packer.Cost{Fixed: 1},
		})
	}
	return layers
}

// Where a stage's time goes, by a clock that runs only while all wait.
func TestWhereTimeGoes(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two stages of one core take turns")
	}
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p, err := start(t, lasting(10*ms, 30*ms), pipeline.WithDevices("cpu/2@1"), pipeline.WithInFlight(3))
		require.NoError(t, err)
		go func() { // whoever submits waits too, while the first link is full
			for range 3 {
				send(t, p, 1, 2)
			}
		}()
		<-time.After(35 * ms)
		synctest.Wait()
		now := p.Stats().Stages
		assert.Equal(t, 0, now[0].Queue)
		assert.Equal(t, 1, now[1].Queue, "the second batch waits for the second stage")
		for range 3 {
			p.Release(<-p.Done())
		}
		assert.Equal(t, stage.Stats{Busy: 30 * ms, Blocked: 10 * ms, Batches: 3, Rows: 6}, p.Stats().Stages[0].Stats)
		assert.Equal(t, stage.Stats{Busy: 90 * ms, Batches: 3, Rows: 6}, p.Stats().Stages[1].Stats)

		<-time.After(time.Second) // nobody has work: that is nobody's bubble
		send(t, p, 1)
		p.Release(<-p.Done())
		assert.Equal(t, stage.Stats{Busy: 40 * ms, Blocked: 10 * ms, Bubbles: 60 * ms, Batches: 4, Rows: 7}, p.Stats().Stages[0].Stats)
		assert.Equal(t, stage.Stats{Busy: 120 * ms, Bubbles: 10 * ms, Batches: 4, Rows: 7}, p.Stats().Stages[1].Stats)
		assert.Equal(t, []uint64{1, 3, 0}, p.Stats().Rows.Counts[:3])
		require.NoError(t, p.Close())
	})
}

// notes is an observer that keeps what it is told.
type notes struct {
	mu              sync.Mutex
	filled, emptied []pipeline.Handling
	worked          []stage.Work
}

func (n *notes) Filled(h pipeline.Handling) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filled = append(n.filled, h)
}

func (n *notes) Emptied(h pipeline.Handling) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.emptied = append(n.emptied, h)
}

func (n *notes) Worked(w stage.Work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.worked = append(n.worked, w)
}

func TestObserverIsToldOfEveryBatch(t *testing.T) {
	const fail, ends = 101, 104
	layers := doubling(2)
	layers[1].(*stagetest.Layer).FailToken = fail
	layers[1].(*stagetest.Layer).GoexitToken = ends
	for _, l := range layers {
		l.(*stagetest.Layer).Costs.Fixed = 1
	}
	told := new(notes)
	p, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, "cpu,cpu")), pipeline.WithObserver(told))
	require.NoError(t, err)
	for _, tokens := range [][]int32{{1, 2}, {fail}, {ends}, {3, 4, 5}} {
		b := <-p.Free()
		p.Begin(b)
		for i, token := range tokens {
			b.Header.Append(token, int32(i), 0, i == 0)
		}
		require.NoError(t, p.Submit(t.Context(), b))
		p.Release(<-p.Done())
	}
	p.Release(<-p.Free()) // never filled: nothing is told of it
	require.NoError(t, p.Close())

	start := func(w stage.Work) time.Time {
		if w.Began.IsZero() {
			return w.Received
		}
		return w.Began // by a device that gets batches ahead
	}
	require.Len(t, told.filled, 4)
	require.Len(t, told.emptied, 4)
	require.Len(t, told.worked, 8)
	for i, rows := range []int{2, 1, 1, 3} {
		into, out := told.filled[i], told.emptied[i]
		first, second := told.worked[2*i], told.worked[2*i+1]
		number := uint64(i + 1)
		assert.Equal(t, []uint64{number, number, number, number}, []uint64{into.Batch, first.Batch, second.Batch, out.Batch})
		assert.Equal(t, []int{rows, rows, rows, rows}, []int{into.Rows, first.Rows, second.Rows, out.Rows})
		assert.Equal(t, 1, into.Outputs)
		assert.Equal(t, "block 0", first.Layers)
		assert.Equal(t, 1, second.Stage)
		assert.Equal(t, p.Plan().Stages[1].Device.Name, second.Device)
		assert.NoError(t, first.Err)
		assert.Equal(t, i == 1 || i == 2, second.Err != nil)
		assert.Equal(t, second.Err, out.Err)
		for _, order := range [][2]time.Time{
			{into.Began, into.Ended}, {into.Ended, first.Received}, {first.Ended(), start(second)}, {second.Ended(), out.Began}, {out.Began, out.Ended},
		} {
			assert.False(t, order[1].Before(order[0]), "%v", order)
		}
	}
}

// counting is an observer that counts what it is told.
type counting struct{ filled, worked, emptied int }

func (c *counting) Filled(pipeline.Handling)  { c.filled++ }
func (c *counting) Worked(stage.Work)         { c.worked++ }
func (c *counting) Emptied(pipeline.Handling) { c.emptied++ }

func TestObservingAllocatesNothing(t *testing.T) {
	told := new(counting)
	p, err := start(t, doubling(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithObserver(told))
	require.NoError(t, err)
	ctx := t.Context()
	round := func() {
		b := <-p.Free()
		p.Begin(b)
		b.Header.Append(1, 0, 0, true)
		if p.Submit(ctx, b) == nil {
			b = <-p.Done()
			p.Begin(b)
			p.Release(b)
		}
	}
	round()
	assert.Zero(t, testing.AllocsPerRun(200, round))
	require.NoError(t, p.Close())
	assert.Equal(t, counting{202, 202, 202}, *told)
}

// A pipeline of rows tells how long its gathering and delivering take.
func TestObserverOfAPipeline(t *testing.T) {
	told := new(notes)
	p, err := pipeline.New(t.Context(), mixing(2, 3, 4), pipeline.WithInput(2), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithObserver(told))
	require.NoError(t, err)
	_, err = p.Do(t.Context(), make([]float32, 2*5))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.Len(t, told.filled, 1)
	require.Len(t, told.emptied, 1)
	assert.Equal(t, 5, told.filled[0].Rows)
	assert.True(t, told.filled[0].Began.Before(told.filled[0].Ended))
	assert.EqualValues(t, 1, p.Stats().Rows.Count())
	assert.EqualValues(t, 5, p.Stats().Rows.Sum)
}

// The work of a stage is a region of Go's own traces.
func TestRegions(t *testing.T) {
	var text bytes.Buffer
	if err := trace.Start(&text); err != nil {
		t.Skip(err)
	}
	defer trace.Stop()
	p, err := start(t, doubling(2), pipeline.WithDevices("cpu"))
	require.NoError(t, err)
	send(t, p, 1)
	p.Release(<-p.Done())
	require.NoError(t, p.Close())
	trace.Stop()
	assert.Contains(t, text.String(), "blocks 0-1")
}
