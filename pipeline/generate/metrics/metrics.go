// Package metrics shows Prometheus what an engine does, and how long its requests
// wait.
//
//	registry.MustRegister(metrics.NewCollector(e))
//
// The metrics' names begin with leat_. Who has several engines in one process
// tells them apart with prometheus.WrapRegistererWith and a label.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/metrics"
)

// NewCollector returns a collector for an engine and its stages. Whoever closes
// the engine should unregister it.
func NewCollector(e *generate.Engine) prometheus.Collector {
	return collector{e, metrics.NewStages(e)}
}

type collector struct {
	engine *generate.Engine
	stages prometheus.Collector
}

var (
	ended     = newDesc("leat_requests_total", "Requests that ended, by how.", "finish")
	running   = newDesc("leat_requests_running", "Requests that are under way.")
	waiting   = newDesc("leat_requests_waiting", "Requests that wait for pages or a place.")
	yields    = newDesc("leat_request_yields_total", "How often a request gave up its pages to another, to be computed again.")
	moved     = newDesc("leat_requests_moved_total", "Requests that went to another route because theirs failed.")
	routes    = newDesc("leat_routes_working", "Routes through the replicas of the stages that work.")
	prompts   = newDesc("leat_prompt_tokens_total", "Tokens of the prompts of requests that arrived.")
	reused    = newDesc("leat_reused_tokens_total", "Tokens of prompts that were not computed, since their pages were there.")
	generated = newDesc("leat_generated_tokens_total", "Tokens that were added to prompts.")
	pages     = newDesc("leat_kv_pages", "Pages of keys and values in all.")
	free      = newDesc("leat_kv_pages_free", "Pages of keys and values that no request uses.")
	queue     = newDesc("leat_request_queue_seconds", "Time from a request's arrival until its first rows were sent.")
	first     = newDesc("leat_request_first_token_seconds", "Time from a request's arrival to its first token.")
	token     = newDesc("leat_token_seconds", "Time from a token to the next of the same request.")

	all = []*prometheus.Desc{ended, running, waiting, yields, moved, routes, prompts, reused, generated, pages, free, queue, first, token}
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
	c.stages.Describe(to)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	totals, counts, latency := c.engine.Totals(), c.engine.Counts(), c.engine.Latency()
	counter(ended, totals.Stopped, string(generate.Stop))
	counter(ended, totals.Reached, string(generate.Length))
	counter(ended, totals.Cancelled, string(generate.Cancelled))
	counter(ended, totals.Failed, string(generate.Failed))
	counter(prompts, totals.Prompt)
	counter(generated, totals.Generated)
	counter(reused, int64(counts.Reused))
	counter(yields, int64(counts.Yields))
	counter(moved, int64(counts.Moved))
	gauge(routes, counts.Routes)
	gauge(running, counts.Running)
	gauge(waiting, counts.Waiting)
	gauge(pages, counts.Pages)
	gauge(free, counts.FreePages)
	to <- metrics.Histogram(queue, latency.Queue, time.Second)
	to <- metrics.Histogram(first, latency.FirstToken, time.Second)
	to <- metrics.Histogram(token, latency.Token, time.Second)
	c.stages.Collect(to)
}
