// Package metrics shows Prometheus what a pipeline does.
//
//	registry.MustRegister(metrics.NewCollector(p))
//
// For a language model, package pipeline/generate/metrics has the collector. The
// metrics' names begin with leat_. Who has several pipelines in one process tells
// them apart with prometheus.WrapRegistererWith and a label.
package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// NewCollector returns a collector for a pipeline. Whoever closes the pipeline
// should unregister it.
func NewCollector(p *pipeline.Pipeline) prometheus.Collector { return pipelines{p} }

type pipelines struct{ *pipeline.Pipeline }

var (
	calls    = newDesc("leat_pipeline_calls_total", "Calls that were taken.")
	waiting  = newDesc("leat_pipeline_waiting_calls", "Calls that wait for their turn.")
	failures = newDesc("leat_pipeline_failed_batches_total", "Batches that failed.")
	failing  = newDesc("leat_pipeline_failing", "1 while the pipeline refuses calls because its batches all failed, or because it is closed.")
)

// Describe implements prometheus.Collector.
func (c pipelines) Describe(to chan<- *prometheus.Desc) {
	to <- calls
	to <- waiting
	to <- failures
	to <- failing
	describeStages(to)
}

// Collect implements prometheus.Collector.
func (c pipelines) Collect(to chan<- prometheus.Metric) {
	s := c.Stats()
	to <- counter(calls, float64(s.Calls))
	to <- gauge(waiting, float64(s.Waiting))
	to <- counter(failures, float64(s.Failures))
	down := 0.0
	if c.Err() != nil {
		down = 1
	}
	to <- gauge(failing, down)
	collectStages(to, s.Stages, s.Rows)
}

// NewStages returns a collector for the stages alone, of what has no more to tell:
// a pipeline.Line.
func NewStages(of Source) prometheus.Collector { return stages{of} }

// Source is what has stages at work: a *pipeline.Line, a *generate.Engine.
type Source interface {
	Stats() []pipeline.StageStats
	BatchRows() histogram.Snapshot[int]
}

type stages struct{ Source }

// Describe implements prometheus.Collector.
func (c stages) Describe(to chan<- *prometheus.Desc) { describeStages(to) }

// Collect implements prometheus.Collector.
func (c stages) Collect(to chan<- prometheus.Metric) { collectStages(to, c.Stats(), c.BatchRows()) }

// worker is a stage that has no replicas, or one replica.
type worker struct {
	labels [4]string // stage, replica, device, layers
	stage.Stats
	queue int
	bytes int64
}

// workersOf takes stages apart into their replicas.
func workersOf(stages []pipeline.StageStats) (all []worker) {
	for i, s := range stages {
		each := s.Replicas
		if len(each) == 0 {
			each = []pipeline.ReplicaStats{{Device: s.Device, Stats: s.Stats, Queue: s.Queue}}
		}
		plans := s.Each()
		for j, r := range each {
			labels := [4]string{strconv.Itoa(i), strconv.Itoa(j), r.Device.Name, s.Layers}
			all = append(all, worker{labels, r.Stats, r.Queue, plans[j].Bytes()})
		}
	}
	return all
}

// perWorker is a metric that each of them has.
type perWorker struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*worker) float64
}

func workerCounter(name, help string, value func(*worker) float64) perWorker {
	return perWorker{newDesc(name, help, "stage", "replica", "device", "layers"), prometheus.CounterValue, value}
}

func workerGauge(name, help string, value func(*worker) float64) perWorker {
	return perWorker{newDesc(name, help, "stage", "replica", "device", "layers"), prometheus.GaugeValue, value}
}

var eachWorker = []perWorker{
	workerCounter("leat_stage_batches_total", "Batches that the stage worked on.",
		func(w *worker) float64 { return float64(w.Batches) }),
	workerCounter("leat_stage_rows_total", "Rows that the stage worked on.",
		func(w *worker) float64 { return float64(w.Rows) }),
	workerCounter("leat_stage_busy_seconds_total", "Time in which the stage had its device.",
		func(w *worker) float64 { return w.Busy.Seconds() }),
	workerCounter("leat_stage_transfer_seconds_total", "Time in which the stage brought activations to its device.",
		func(w *worker) float64 { return w.Transfer.Seconds() }),
	workerCounter("leat_stage_device_wait_seconds_total", "Time in which the stage waited for its device, which other stages use too.",
		func(w *worker) float64 { return w.Turn.Seconds() }),
	workerCounter("leat_stage_blocked_seconds_total", "Time in which the stage waited for the next one to take a batch.",
		func(w *worker) float64 { return w.Blocked.Seconds() }),
	workerCounter("leat_stage_bubble_seconds_total", "Time in which the stage had no batch while others had.",
		func(w *worker) float64 { return w.Bubbles.Seconds() }),
	workerGauge("leat_stage_queue_batches", "Batches that wait for the stage.",
		func(w *worker) float64 { return float64(w.queue) }),
	workerGauge("leat_stage_memory_bytes", "Memory that the stage takes on its device.",
		func(w *worker) float64 { return float64(w.bytes) }),
}

var batchRows = newDesc("leat_batch_rows", "Rows in a batch.")

func describeStages(to chan<- *prometheus.Desc) {
	for _, m := range eachWorker {
		to <- m.desc
	}
	to <- batchRows
}

func collectStages(to chan<- prometheus.Metric, stages []pipeline.StageStats, rows histogram.Snapshot[int]) {
	for _, w := range workersOf(stages) {
		for _, m := range eachWorker {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&w), w.labels[:]...)
		}
	}
	to <- Histogram(batchRows, rows, 1)
}

// Histogram is what a histogram counted as Prometheus takes it, in units of unit:
// times in time.Second.
func Histogram[T ~int | ~int64](d *prometheus.Desc, s histogram.Snapshot[T], unit T) prometheus.Metric {
	upTo, n := make(map[float64]uint64, len(s.Limits)), uint64(0)
	for i, limit := range s.Limits {
		n += s.Counts[i]
		upTo[float64(limit)/float64(unit)] = n
	}
	return prometheus.MustNewConstHistogram(d, s.Count(), float64(s.Sum)/float64(unit), upTo)
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func counter(d *prometheus.Desc, v float64) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
}

func gauge(d *prometheus.Desc, v float64) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
}
