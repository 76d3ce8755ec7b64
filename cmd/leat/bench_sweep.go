package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/model"
)

// sample is how long one sample takes at least: so long that the settings that
// a search tries, of which there are some 25, fit the time.
func (s *sweep) sample() time.Duration {
	return min(time.Second, s.sweepTime/time.Duration(50*s.repeat))
}

// sweep tries flags out on one workload: so many sequences at once, each with a
// prompt of decodePrompt tokens, to which so many are added.
type sweep struct {
	*benchFlags
	command *cobra.Command
	model   *model.Model
	test    benchTest
	until   time.Time // nothing new is begun
	search  search
	show    *bar
	skipped error // the first setting that couldn't be measured
}

func (f *benchFlags) sweepAll(c *cobra.Command, m *model.Model) error {
	s := &sweep{
		benchFlags: f,
		command:    c,
		model:      m,
		test:       benchTest{Test: decodeTest, Tokens: f.decode[len(f.decode)-1], Concurrency: f.concurrency[len(f.concurrency)-1]},
		show:       newBar(c.ErrOrStderr(), "sweeping:"),
	}
	given := c.Flags().Changed
	if !given("max-seqs") {
		f.pipeline.maxSeqs = max(f.pipeline.maxSeqs, s.test.Concurrency)
	}
	s.search = search{inFlight: !given("inflight"), measure: s.measure, goOn: func() bool { return time.Now().Before(s.until) }}
	if !given("devices") && !given("placement") {
		s.search.lists = s.deviceLists()
	}
	if !given("max-batch") {
		s.search.batches = batchSizes(s.test.Concurrency)
	}
	if !given("queue") {
		s.search.queues = []int{0, 1, 2, 4}
	}
	best, err := s.run(c.Context())
	s.show.clear()
	if len(s.search.trials) == 0 {
		return errors.Join(err, s.skipped)
	}
	// Of a sweep that was ended early what is known is printed, too.
	if printed := s.print(c.OutOrStdout(), best); err == nil {
		err = printed
	}
	return err
}

// run searches for four fifths of the time, and confirms in the rest.
func (s *sweep) run(ctx context.Context) (*trial, error) {
	began := time.Now()
	s.until = began.Add(s.sweepTime * 4 / 5)
	if best, err := s.search.run(ctx); best == nil || err != nil {
		return nil, err
	}
	s.until = began.Add(s.sweepTime)
	return s.search.confirm(ctx)
}

// deviceLists is what there is to try: the CPU's cores as one stage, as several,
// and as replicas of one; every GPU alone, and all in a row. What means the same
// devices as another stands there once.
func (s *sweep) deviceLists() (lists []string) {
	threads := s.pipeline.threads
	names := func(list string) []string {
		places, err := device.Resolve(list, threads)
		var names []string
		for _, p := range places {
			names = append(names, p.Info.Name)
		}
		if err != nil {
			return nil
		}
		return names
	}
	known := map[string]bool{strings.Join(names(s.pipeline.devices), ","): true}
	add := func(list, means string) {
		if means != "" && !known[means] {
			known[means] = true
			lists = append(lists, list)
		}
	}
	var gpus []string
	found, _ := device.Discover()
	for _, d := range found {
		if d.Kind != device.CPU {
			gpus = append(gpus, d.Name)
			add(d.Name, d.Name)
		}
	}
	if len(gpus) > 1 {
		row := strings.Join(gpus, ",")
		add(row, row)
	}
	add("cpu", strings.Join(names("cpu"), ","))
	cores := runtime.NumCPU()
	if threads > 0 {
		cores = min(cores, threads)
	}
	for _, n := range []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		if n > min(cores, len(s.model.Layers)) {
			break
		}
		list := fmt.Sprintf("cpu/%d", n)
		parts := names(list)
		add(list, strings.Join(parts, ","))
		replicas := strings.Join(parts, "|")
		add(replicas, replicas)
		if n == 2 {
			add(parts[0], parts[0])
		}
	}
	return lists
}

// batchSizes are limits of a batch to try where so many sequences decode.
func batchSizes(sequences int) []int {
	sizes := []int{(sequences + 1) / 2, sequences, 2 * sequences, 16, 64, 256}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// measure measures a setting once, or says why it can't be and returns nil.
func (s *sweep) measure(ctx context.Context, next setting) (*trial, error) {
	s.progress(next)
	t, err := s.time(ctx, next)
	if err != nil && ctx.Err() == nil {
		if s.skipped == nil {
			s.skipped = err
		}
		s.show.clear()
		fmt.Fprintf(s.command.ErrOrStderr(), "leat: skipped %v: %s\n", next, oneLine(err.Error()))
		return nil, nil
	}
	return t, err
}

func (s *sweep) progress(next setting) {
	text := fmt.Sprintf("%d tried, %v left", len(s.search.trials), max(0, time.Until(s.until)).Round(time.Second))
	if len(s.search.trials) > 0 {
		best := s.search.ranked()[0]
		text += fmt.Sprintf(", best %s tokens/s with %v", humanize.Comma(int64(best.median())), best.setting)
	}
	s.show.say(text + "; now " + next.String())
}

// time runs the workload on an engine with the setting.
func (s *sweep) time(ctx context.Context, next setting) (t *trial, err error) {
	f := *s.benchFlags
	if err := next.apply(&f.pipeline); err != nil {
		return nil, err
	}
	stderr := s.command.ErrOrStderr()
	if len(s.search.trials) > 0 {
		stderr = io.Discard // what there is to warn of is known
	}
	e, err := f.start(ctx, stderr, s.model)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	b := newBench(e.Engine)
	if reason := b.unfit(s.test); reason != "" {
		return nil, fmt.Errorf("%v: %s", s.test, reason)
	}
	t = &trial{setting: next, flights: e.Plan().InFlight()}
	for _, stage := range e.Plan().Stages {
		t.stages = append(t.stages, stage.Devices())
	}
	n, most := s.test.Concurrency, s.test.Tokens
	if _, err := b.time(ctx, n, decodePrompt, most); err != nil { // the first time is for warming up
		return nil, err
	}
	for range s.repeat {
		took, tokens := time.Duration(0), 0
		for tokens == 0 || took < s.sample() {
			more, err := b.time(ctx, n, decodePrompt, most)
			if err != nil {
				return nil, err
			}
			took, tokens = took+more, tokens+n*most
		}
		t.speeds = append(t.speeds, perSecond(tokens, took))
	}
	return t, nil
}

// apply sets the flags of a setting.
func (s setting) apply(f *pipelineFlags) (err error) {
	if s.devices != "" {
		f.devices = s.devices
	}
	number := func(text string, to *int) {
		if text != "" && err == nil {
			*to, err = strconv.Atoi(text)
		}
	}
	number(s.inFlight, &f.inFlight)
	number(s.maxBatch, &f.maxBatch)
	depth := -1
	if number(s.queue, &depth); depth >= 0 {
		f.queue = []int{depth}
	}
	return err
}

// print prints what was tried, the fastest first, and how to have the best again.
func (s *sweep) print(w io.Writer, best *trial) error {
	ranked := s.search.ranked()
	if best == nil { // it was ended early
		best = ranked[0]
	}
	if s.json {
		return printJSON(w, s.document(ranked, best))
	}
	fmt.Fprintf(w, "%d tokens added to each of %s of %d tokens, at once\n\n", s.test.Tokens, counted(s.test.Concurrency, "prompt"), decodePrompt)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tokens/s\tlow to high\tstages on\tflags")
	for _, r := range ranked {
		fmt.Fprintf(t, "%.1f\t%.1f to %.1f\t%s\t%v\n", r.median(), slices.Min(r.speeds), slices.Max(r.speeds), strings.Join(r.stages, " → "), r.setting)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "the flags as given can't be measured; best"
	if given := s.search.given(); best == given {
		verdict = "nothing was clearly faster than the flags as given"
	} else if given != nil {
		verdict = fmt.Sprintf("%.2f times as fast as the flags as given", best.median()/given.median())
	}
	_, err := fmt.Fprintf(w, "\n%s:\n  %s\n", verdict, s.commandLine(best))
	return err
}

// commandLine is what measures a setting again.
func (s *sweep) commandLine(t *trial) string {
	words := []string{s.command.CommandPath()}
	words = append(words, givenFlags(s.command.Flags(), "sweep", "sweep-time", "json", "prefill", "decode", "concurrency")...)
	words = append(words, fmt.Sprintf("--decode %d --concurrency %d", s.test.Tokens, s.test.Concurrency))
	if t.setting != (setting{}) {
		words = append(words, t.String())
	}
	return strings.Join(words, " ")
}

// sweepDocument is what leat bench --sweep --json prints.
type sweepDocument struct {
	Test    benchTest       `json:"test"`
	Results []trialDocument `json:"results"` // the fastest first
	Best    string          `json:"best"`    // the command line that measures the best setting
	Ratio   *float64        `json:"ratio"`   // how many times as fast as the flags as given it is; null where these can't be measured
}

type trialDocument struct {
	Flags    map[string]string `json:"flags"`   // beside those given
	Devices  []string          `json:"devices"` // a stage each
	InFlight int               `json:"inflight"`
	Speed    float64           `json:"tps"` // the median of the samples
	Samples  []float64         `json:"samples"`
}

func (s *sweep) document(ranked []*trial, best *trial) sweepDocument {
	doc := sweepDocument{Test: s.test, Best: s.commandLine(best)}
	doc.Test.Speed = decimals(best.median(), 2)
	if given := s.search.given(); given != nil {
		ratio := decimals(best.median()/given.median(), 3)
		doc.Ratio = &ratio
	}
	for _, t := range ranked {
		row := trialDocument{Flags: map[string]string{}, Devices: t.stages, InFlight: t.flights, Speed: decimals(t.median(), 2)}
		names, values := t.flags()
		for i, name := range names {
			row.Flags[name] = values[i]
		}
		for _, v := range t.speeds {
			row.Samples = append(row.Samples, decimals(v, 2))
		}
		doc.Results = append(doc.Results, row)
	}
	return doc
}
