// Package enginemetrics exports the statistics of an engine to Prometheus: what it has
// done, how long requests have waited, and what each stage has done.
//
//	registry.MustRegister(enginemetrics.NewCollector(e))
//
// The names of the metrics begin with leat_. A program with several engines registers
// each collector with prometheus.WrapRegistererWith and a label that tells them apart.
//
// The package knows what [generate.Engine.Stats] returns, and nothing else of an engine.
package enginemetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/metrics"
)

// NewCollector returns a collector for an engine and its stages. It should be
// unregistered when the engine is closed. After that it still collects the last values.
func NewCollector(e *generate.Engine) prometheus.Collector { return collector{e} }

type collector struct{ engine *generate.Engine }

// stages returns a collector for the stages in a snapshot, so that all metrics of one
// collection are of the same moment.
func stages(s generate.Stats) prometheus.Collector {
	return metrics.NewStages(func() pipeline.LineStats { return pipeline.LineStats{Rows: s.Rows, Stages: s.Stages} })
}

var (
	ended     = newDesc("leat_requests_total", "Requests that ended, by how.", "finish")
	running   = newDesc("leat_requests_running", "Requests that are admitted.")
	waiting   = newDesc("leat_requests_waiting", "Requests that wait to be admitted, or were preempted.")
	preempted = newDesc("leat_request_preemptions_total", "How often a request gave up its pages to another, to be computed again.")
	moved     = newDesc("leat_requests_moved_total", "How often a request left a route that failed it for another.")
	routes    = newDesc("leat_routes_working", "Routes through the replicas of the stages that work.")
	prompts   = newDesc("leat_prompt_tokens_total", "Tokens of the prompts of requests that arrived.")
	reused    = newDesc("leat_reused_tokens_total", "Tokens of prompts that were not computed because the prefix cache had them.")
	generated = newDesc("leat_generated_tokens_total", "Tokens that were added to prompts.")
	pages     = newDesc("leat_kv_pages", "Pages of keys and values in all.")
	free      = newDesc("leat_kv_pages_free", "Pages of keys and values that no request uses.")
	queue     = newDesc("leat_request_queue_seconds", "Time from a request's arrival until its first rows were sent.")
	first     = newDesc("leat_request_first_token_seconds", "Time from a request's arrival to its first token.")
	token     = newDesc("leat_token_seconds", "Time from a token to the next of the same request.")

	all = []*prometheus.Desc{ended, running, waiting, preempted, moved, routes, prompts, reused, generated, pages, free, queue, first, token}
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
	stages(generate.Stats{}).Describe(to)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	s := c.engine.Stats()
	counter(ended, s.Stopped, string(generate.Stop))
	counter(ended, s.ReachedLength, string(generate.Length))
	counter(ended, s.Cancelled, string(generate.Cancelled))
	counter(ended, s.Failed, string(generate.Failed))
	counter(prompts, s.PromptTokens)
	counter(generated, s.GeneratedTokens)
	counter(reused, s.ReusedTokens)
	counter(preempted, s.Preempted)
	counter(moved, s.Moved)
	gauge(routes, s.Routes)
	gauge(running, s.Running)
	gauge(waiting, s.Waiting)
	gauge(pages, s.Pages)
	gauge(free, s.FreePages)
	to <- metrics.Histogram(queue, s.Queue, time.Second)
	to <- metrics.Histogram(first, s.FirstToken, time.Second)
	to <- metrics.Histogram(token, s.Token, time.Second)
	stages(s).Collect(to)
}
