package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// start plans a line of stages and starts it.
func start(t testing.TB, layers []stage.Layer, options ...pipeline.Option) (*line, error) {
	plan, err := pipeline.NewPlan(t.Context(), layers, options...)
	require.NoError(t, err)
	return startLine(t.Context(), plan)
}

// send fills a free batch with tokens and submits it.
func send(t testing.TB, p *line, tokens ...int32) {
	b := <-p.Free()
	for i, token := range tokens {
		b.Header.Append(token, int32(i), 0, true)
	}
	require.NoError(t, p.Submit(t.Context(), b))
}

func TestBatchesFlowInOrder(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu/2", "cpu/3", "cpu/9", "cpu,cpu,cpu"} {
		t.Run(devices, func(t *testing.T) {
			p, err := start(t, doubling(7), pipeline.WithDevices(stagetest.Devices(t, devices)), pipeline.WithMaxBatch(8))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			inFlight := p.Plan().InFlight()
			for round := range 50 {
				for i := range inFlight {
					send(t, p, int32(round), int32(i))
				}
				for i := range inFlight {
					b := <-p.Done()
					require.NoError(t, b.Err())
					one, two := doubled(float32(round), 7), doubled(float32(i), 7)
					assert.Equal(t, []float32{one, one, one, two, two, two}, b.Values())
					p.Release(b)
				}
			}
			for _, s := range p.Stats().Stages {
				assert.EqualValues(t, 50*inFlight, s.Batches)
				assert.EqualValues(t, 100*inFlight, s.Rows)
				assert.Positive(t, s.Busy)
			}
		})
	}
}

// A batch that fails, or makes the stage or one of its device's workers panic,
// ends with an error that says where; the batches around it end well.
func TestFailureEndsOneBatchOnly(t *testing.T) {
	const fail, panics, worker, ends = 101, 102, 103, 104
	layers := doubling(5)
	broken := layers[3].(*stagetest.Layer)
	broken.FailToken, broken.PanicToken, broken.WorkerPanicToken, broken.GoexitToken = fail, panics, worker, ends
	for _, devices := range []string{"cpu", "cpu/2", "cpu/5"} {
		t.Run(devices, func(t *testing.T) {
			p, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, devices)), pipeline.WithInFlight(4), pipeline.WithMaxBatch(8))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			for range 10 {
				for _, token := range []int32{7, fail, panics, worker, ends, 8} {
					send(t, p, 1, token)
					b := <-p.Done()
					if token < 100 {
						require.NoError(t, b.Err())
						assert.Equal(t, doubled(float32(token), 5), b.Values()[3])
						p.Release(b)
						continue
					}
					var at *stage.Error
					require.ErrorAs(t, b.Err(), &at)
					where := p.Plan().Stages[at.Stage]
					assert.Equal(t, where.Layers, at.Layers)
					assert.Equal(t, where.Device.Name, at.Device)
					assert.True(t, where.From <= 3 && 3 < where.To, "it was in stage %d", at.Stage)
					gpu := where.Device.Kind != device.CPU
					if token != ends && (token != worker || !gpu) {
						assert.Equal(t, "block 3", at.Layer)
					}
					switch token {
					case ends:
						assert.ErrorContains(t, b.Err(), "ended the stage's goroutine")
					case fail:
						assert.ErrorIs(t, b.Err(), stagetest.ErrFail)
					case panics:
						assert.ErrorContains(t, b.Err(), "panic: told to panic")
					case worker:
						if gpu {
							assert.ErrorContains(t, b.Err(), "Embed: row ", "its kernel says what it found")
						} else {
							assert.ErrorContains(t, b.Err(), "told to panic in a worker")
						}
					}
					p.Release(b)
				}
			}
		})
	}
}

// Stages that share a device take turns: waiting for it is not work.
func TestBusyIsTheTimeOnTheDevice(t *testing.T) {
	began := time.Now()
	p, err := start(t, doubling(4), pipeline.WithDevices("cpu:0,cpu:0,cpu:0,cpu:0"), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for range 2000 {
		for range p.Plan().InFlight() {
			send(t, p, 1)
		}
		for range p.Plan().InFlight() {
			p.Release(<-p.Done())
		}
	}
	var busy time.Duration
	for _, s := range p.Stats().Stages {
		busy += s.Busy
	}
	assert.LessOrEqual(t, busy, time.Since(began))
}

func TestShutdownLetsBatchesComeOut(t *testing.T) {
	p, err := start(t, doubling(4), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithInFlight(3), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	for i := range 3 {
		send(t, p, int32(i))
	}
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Close())
	for i := range 3 {
		b := <-p.Done()
		require.NoError(t, b.Err())
		assert.Equal(t, 1, len(b.Header.Tokens))
		assert.EqualValues(t, i, b.Header.Tokens[0])
	}
	_, open := <-p.Done()
	assert.False(t, open)
	assert.ErrorIs(t, p.Submit(t.Context(), stage.NewBatch(0, stage.Config{MaxRows: 1})), pipeline.ErrClosed)
}

func TestStartFailureLeavesNothing(t *testing.T) {
	layers := doubling(4)
	layers[2].(*stagetest.Layer).LoadPanic = "no memory"
	_, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, "cpu/2")))
	var at *stage.Error
	require.ErrorAs(t, err, &at)
	assert.Equal(t, "block 2", at.Layer)
	assert.Equal(t, 1, layers[0].(*stagetest.Layer).Closed)
}

// In the steady state a batch costs no allocation, however many stages.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	p, err := start(t, doubling(6), pipeline.WithDevices(stagetest.Devices(t, "cpu/3")), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	ctx := t.Context()
	round := func() {
		for range p.Plan().InFlight() {
			b := <-p.Free()
			b.Header.Append(1, 0, 0, true)
			if p.Submit(ctx, b) != nil {
				return
			}
		}
		for range p.Plan().InFlight() {
			p.Release(<-p.Done())
		}
	}
	round()
	assert.Zero(t, testing.AllocsPerRun(200, round))
}
