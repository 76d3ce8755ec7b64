// Package metrics exports the statistics of a pipeline to Prometheus: what it has done, and
// what each stage has done.
//
//	registry.MustRegister(metrics.NewCollector(p))
//
// Package pipeline/generate/enginemetrics does the same for an engine that runs a language
// model. The names of the metrics begin with leat_. A program with several pipelines
// registers each collector with prometheus.WrapRegistererWith and a label that tells them
// apart.
package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// NewCollector returns a collector for a pipeline and its stages. It should be
// unregistered when the pipeline is closed. After that it still collects the last values.
func NewCollector(p *pipeline.Pipeline) prometheus.Collector { return pipelines{p} }

type pipelines struct{ *pipeline.Pipeline }

var (
	calls    = newDesc("leat_pipeline_calls_total", "Calls that were accepted.")
	waiting  = newDesc("leat_pipeline_waiting_calls", "Calls in the backlog.")
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
	collectStages(to, pipeline.LineStats{Rows: s.Rows, Stages: s.Stages})
}

// NewStages returns a collector for stages alone. It calls stats for each collection; for
// a [pipeline.Line], stats is its Stats method.
func NewStages(stats func() pipeline.LineStats) prometheus.Collector { return stages{stats} }

type stages struct{ stats func() pipeline.LineStats }

// Describe implements prometheus.Collector.
func (c stages) Describe(to chan<- *prometheus.Desc) { describeStages(to) }

// Collect implements prometheus.Collector.
func (c stages) Collect(to chan<- prometheus.Metric) { collectStages(to, c.stats()) }

// worker is a replica of a stage, or a stage without replicas.
type worker struct {
	labels [4]string // stage, replica, device, layers
	stage.Stats
	queue int
	bytes int64
}

// workersOf returns the replicas of the stages.
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

// perWorker is a metric that each worker has.
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

func collectStages(to chan<- prometheus.Metric, stats pipeline.LineStats) {
	for _, w := range workersOf(stats.Stages) {
		for _, m := range eachWorker {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&w), w.labels[:]...)
		}
	}
	to <- Histogram(batchRows, stats.Rows, 1)
}

// Histogram returns a histogram as a Prometheus metric. Its values are divided by unit: for
// durations, a unit of time.Second gives seconds.
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
