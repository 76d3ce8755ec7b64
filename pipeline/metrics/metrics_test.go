package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/pipeline/metrics"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed returns the statistics of stages that did something once.
func fixed() pipeline.LineStats {
	h := histogram.New([]int{1, 2, 4})
	for _, n := range []int{1, 2, 2, 3, 9} {
		h.Add(n)
	}
	return pipeline.LineStats{Rows: h.Snapshot(), Stages: []pipeline.StageStats{
		{
			StagePlan: pipeline.StagePlan{Device: device.Info{Name: "cpu:0"}, Layers: "block 0", Weights: 1000, State: 20, Overhead: 4},
			Stats: stage.Stats{
				Busy: 1500 * time.Millisecond, Transfer: time.Millisecond, Turn: 2 * time.Millisecond,
				Blocked: 3 * time.Millisecond, Bubbles: 4 * time.Millisecond, Batches: 7, Rows: 70,
			},
			Queue: 2,
		},
		{StagePlan: pipeline.StagePlan{Device: device.Info{Name: "cpu:1"}, Layers: "block 1"}},
	}}
}

func TestStages(t *testing.T) {
	want := `
# HELP leat_batch_rows Rows in a batch.
# TYPE leat_batch_rows histogram
leat_batch_rows_bucket{le="1"} 1
leat_batch_rows_bucket{le="2"} 3
leat_batch_rows_bucket{le="4"} 4
leat_batch_rows_bucket{le="+Inf"} 5
leat_batch_rows_sum 17
leat_batch_rows_count 5
# HELP leat_stage_batches_total Batches that the stage worked on.
# TYPE leat_stage_batches_total counter
leat_stage_batches_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 7
leat_stage_batches_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_blocked_seconds_total Time in which the stage waited for the next one to take a batch.
# TYPE leat_stage_blocked_seconds_total counter
leat_stage_blocked_seconds_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 0.003
leat_stage_blocked_seconds_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_bubble_seconds_total Time in which the stage had no batch while others had.
# TYPE leat_stage_bubble_seconds_total counter
leat_stage_bubble_seconds_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 0.004
leat_stage_bubble_seconds_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_busy_seconds_total Time in which the stage had its device.
# TYPE leat_stage_busy_seconds_total counter
leat_stage_busy_seconds_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 1.5
leat_stage_busy_seconds_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_device_wait_seconds_total Time in which the stage waited for its device, which other stages use too.
# TYPE leat_stage_device_wait_seconds_total counter
leat_stage_device_wait_seconds_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 0.002
leat_stage_device_wait_seconds_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_memory_bytes Memory that the stage takes on its device.
# TYPE leat_stage_memory_bytes gauge
leat_stage_memory_bytes{device="cpu:0",layers="block 0",replica="0",stage="0"} 1024
leat_stage_memory_bytes{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_queue_batches Batches that wait for the stage.
# TYPE leat_stage_queue_batches gauge
leat_stage_queue_batches{device="cpu:0",layers="block 0",replica="0",stage="0"} 2
leat_stage_queue_batches{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_rows_total Rows that the stage worked on.
# TYPE leat_stage_rows_total counter
leat_stage_rows_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 70
leat_stage_rows_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
# HELP leat_stage_transfer_seconds_total Time in which the stage brought activations to its device.
# TYPE leat_stage_transfer_seconds_total counter
leat_stage_transfer_seconds_total{device="cpu:0",layers="block 0",replica="0",stage="0"} 0.001
leat_stage_transfer_seconds_total{device="cpu:1",layers="block 1",replica="0",stage="1"} 0
`
	assert.NoError(t, testutil.CollectAndCompare(metrics.NewStages(fixed), strings.NewReader(want)))
}

func TestPipeline(t *testing.T) {
	broken := false
	layers := []stage.Layer{&stagetest.Rows{Called: "block 0", Width: 1, Batch: func(int) error {
		if broken {
			return errors.New("a cable came off")
		}
		return nil
	}}}
	p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithFailureLimit(1))
	require.NoError(t, err)
	defer p.Close()
	for _, rows := range []int{1, 3} {
		_, err := p.Do(t.Context(), make([]float32, rows))
		require.NoError(t, err)
	}
	c := metrics.NewCollector(p)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(c))
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP leat_pipeline_calls_total Calls that were accepted.
# TYPE leat_pipeline_calls_total counter
leat_pipeline_calls_total 2
# HELP leat_pipeline_failed_batches_total Batches that failed.
# TYPE leat_pipeline_failed_batches_total counter
leat_pipeline_failed_batches_total 0
# HELP leat_pipeline_failing 1 while the pipeline refuses calls because its batches all failed, or because it is closed.
# TYPE leat_pipeline_failing gauge
leat_pipeline_failing 0
# HELP leat_pipeline_waiting_calls Calls in the backlog.
# TYPE leat_pipeline_waiting_calls gauge
leat_pipeline_waiting_calls 0
`), "leat_pipeline_calls_total", "leat_pipeline_waiting_calls", "leat_pipeline_failed_batches_total", "leat_pipeline_failing"))
	text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "leat_batch_rows", "leat_stage_rows_total")
	require.NoError(t, err)
	assert.Contains(t, string(text), "leat_batch_rows_count 2\n")
	assert.Contains(t, string(text), `layers="block 0",replica="0",stage="0"} 4`)

	broken = true
	_, err = p.Do(t.Context(), make([]float32, 1))
	require.Error(t, err)
	require.NoError(t, p.Close())
	text, err = testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "leat_pipeline_failed_batches_total", "leat_pipeline_failing")
	require.NoError(t, err)
	assert.Contains(t, string(text), "leat_pipeline_failing 1\n")
	assert.NotContains(t, string(text), "leat_pipeline_failed_batches_total 0\n")
}

// A replica has numbers of its own.
func TestReplicas(t *testing.T) {
	layers := []stage.Layer{&stagetest.Rows{Called: "block 0", Width: 1}}
	p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices("cpu|cpu"))
	require.NoError(t, err)
	defer p.Close()
	for range 4 {
		_, err := p.Do(t.Context(), make([]float32, 1))
		require.NoError(t, err)
	}
	c := metrics.NewCollector(p)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(c))
	text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "leat_stage_rows_total")
	require.NoError(t, err)
	sum := 0
	for _, s := range p.Stats().Stages[0].Replicas {
		sum += int(s.Rows)
	}
	assert.Equal(t, 4, sum)
	assert.Contains(t, string(text), `replica="0",stage="0"}`)
	assert.Contains(t, string(text), `replica="1",stage="0"}`)
}

// The statistics of a line have the form that NewStages wants.
var _ = metrics.NewStages((*pipeline.Line)(nil).Stats)
