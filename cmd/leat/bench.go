package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
)

type benchFlags struct {
	model       string
	json        bool
	prefill     []int
	decode      []int
	concurrency []int
	repeat      int
	sweep       bool
	sweepTime   time.Duration
	pipeline    pipelineFlags
}

func benchCommand() *cobra.Command {
	f := benchFlags{prefill: []int{128, 512}, decode: []int{32}, concurrency: []int{1, 4, 16}, repeat: 3, sweepTime: time.Minute}
	c := &cobra.Command{
		Use:   "bench -m FILE",
		Short: "Measure the speed of prefill and decode",
		Long: `Measures tokens a second, of all sequences together, with one engine for all tests
and random tokens as prompts. The median of the repeats is printed.

prefill: from the request to the first token, for prompts of N tokens. It is measured
at a concurrency of 1, unless --concurrency is given.

decode: the sequences start from prompts of 16 tokens, and N tokens after the first
are counted in each. What all first tokens take is measured by itself, and the least
of that is taken off.

Tests that don't fit --ctx, --max-seqs or --kv-memory are skipped, and named on
standard error. Without --max-seqs there are as many sequences as the tests need.

With --sweep one decode test, with the last of --decode and of --concurrency, is run
with many settings instead: first on other devices, then with other values of
--inflight, --max-batch and --queue, one after the other, as long as that helps. What
is given stays. All that was tried is printed, the fastest first, and the command line
that was best. Here all tokens added count, and the time of the prompts too.`,
		Example: `  leat bench -m model.gguf --devices cpu/2
  leat bench -m model.gguf --prefill 512 --decode 64 --concurrency 1,8 --json
  leat bench -m model.gguf --sweep --concurrency 16 --sweep-time 5m`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	jsonFlag(flags, &f.json)
	sizes := list(whole(1, 1<<24))
	read(flags, "prefill", "128,512", "lengths of prompts, `N,N,…`", &f.prefill, sizes)
	read(flags, "decode", "32", "lengths of continuations, `N,N,…`", &f.decode, sizes)
	read(flags, "concurrency", "1,4,16", "sequences at once, `N,N,…`", &f.concurrency, list(whole(1, 1<<16)))
	read(flags, "repeat", "3", "measure each test `N` times", &f.repeat, whole(1, 1000))
	flags.BoolVar(&f.sweep, "sweep", false, "find the fastest devices, in-flight count, batch size and queue depth")
	read(flags, "sweep-time", "60s", "begin nothing new after `TIME`", &f.sweepTime, wait)
	f.pipeline.add(c, 64)
	f.pipeline.waitsForNone("the sequences of a test begin together")
	return c
}

// benchTest is one line of the results.
type benchTest struct {
	Test        string  `json:"test"` // prefill or decode
	Tokens      int     `json:"tokens"`
	Concurrency int     `json:"concurrency"`
	Speed       float64 `json:"tps"`
}

const (
	prefillTest  = "prefill"
	decodeTest   = "decode"
	decodePrompt = 16 // tokens that a decode test starts from
)

// length is how long the test's sequences get, but for the last token.
func (t benchTest) length() int {
	if t.Test == decodeTest {
		return decodePrompt + t.Tokens
	}
	return t.Tokens
}

func (t benchTest) String() string {
	return fmt.Sprintf("%s of %d tokens at concurrency %d", t.Test, t.Tokens, t.Concurrency)
}

// tests are what the flags ask for, in order.
func (f *benchFlags) tests(prefillAt []int) []benchTest {
	var tests []benchTest
	for _, n := range f.prefill {
		for _, c := range prefillAt {
			tests = append(tests, benchTest{Test: prefillTest, Tokens: n, Concurrency: c})
		}
	}
	for _, n := range f.decode {
		for _, c := range f.concurrency {
			tests = append(tests, benchTest{Test: decodeTest, Tokens: n, Concurrency: c})
		}
	}
	return tests
}

// check says which flags don't go together.
func (f *benchFlags) check(c *cobra.Command) error {
	given := c.Flags().Changed
	switch {
	case f.sweep && f.pipeline.trace != "":
		return usage("--sweep and --trace exclude each other: a trace is of one pipeline")
	case f.sweep && given("prefill"):
		return usage("--sweep and --prefill exclude each other: a sweep measures decode")
	case !f.sweep && given("sweep-time"):
		return usage("--sweep-time needs --sweep")
	}
	return f.pipeline.check()
}

func (f *benchFlags) run(c *cobra.Command) (err error) {
	ctx, stderr := c.Context(), c.ErrOrStderr()
	prefillAt := []int{1}
	if c.Flags().Changed("concurrency") {
		prefillAt = f.concurrency
	}
	if err := f.check(c); err != nil {
		return err
	}
	tests := f.tests(prefillAt)
	if !c.Flags().Changed("max-seqs") {
		for _, t := range tests {
			f.pipeline.maxSeqs = max(f.pipeline.maxSeqs, t.Concurrency)
		}
	}
	m, err := openModel(ctx, f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	if f.sweep {
		if err := f.pipeline.prepare(ctx); err != nil {
			return err
		}
		return f.sweepAll(c, m)
	}
	e, err := f.start(ctx, stderr, m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	results, failed := f.measure(ctx, stderr, newBench(e.Engine), tests)
	if failed != nil && len(results) == 0 {
		return failed
	}
	// What was measured until Ctrl+C, or until a test failed, is printed, too.
	switch {
	case f.json:
		err = printJSON(c.OutOrStdout(), resultsOf(e.Plan(), results))
	case len(results) > 0:
		err = printResults(c.OutOrStdout(), e.Plan(), results)
	}
	if failed != nil {
		return failed
	}
	if err == nil && len(results) == 0 {
		err = errors.New("no test was measured: raise --ctx, --max-seqs or --kv-memory, or ask for smaller tests")
	}
	return err
}

// start starts the engine. Its context is one token longer than what was asked
// for, where there is memory for that: a prompt as long as the context fits it,
// but the token drawn after it, which tests wait for, counts too.
func (f *benchFlags) start(ctx context.Context, stderr io.Writer, m *model.Model) (*engine, error) {
	p, err := f.pipeline.plan(ctx, stderr, m)
	if err != nil {
		return nil, err
	}
	f.pipeline.tellUnused(stderr, p)
	flags := f.pipeline
	flags.context = p.Context + 1
	if _, err := generate.NewPlan(ctx, m, flags.options()...); err != nil {
		flags.context = p.Context
	}
	return flags.load(ctx, stderr, m)
}

// measure runs the tests that fit and returns them with their speeds.
func (f *benchFlags) measure(ctx context.Context, stderr io.Writer, b *bench, tests []benchTest) ([]benchTest, error) {
	progress := newBar(stderr, "measuring")
	defer progress.clear()
	if err := b.warmUp(ctx); err != nil {
		return nil, err
	}
	results := []benchTest{}
	for _, t := range tests {
		if reason := b.unfit(t); reason != "" {
			progress.clear()
			fmt.Fprintf(stderr, "leat: skipped %v: %s\n", t, reason)
			continue
		}
		speed, err := b.measure(ctx, t, f.repeat, func(i int) {
			progress.say(fmt.Sprintf("%v, %d of %d", t, i+1, f.repeat))
		})
		if err != nil {
			return results, err
		}
		t.Speed = decimals(speed, 2)
		results = append(results, t)
	}
	return results, nil
}

func printResults(w io.Writer, p *generate.Plan, results []benchTest) error {
	names, simd := devicesUsed(p)
	at := ""
	if simd != "" {
		at = " with " + simd
	}
	fmt.Fprintf(w, "%s: %s%s\n\n", counted(len(names), "stage"), join(names), at)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "test\ttokens\tconcurrency\ttokens/s\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t\n", r.Test, r.Tokens, r.Concurrency, strconv.FormatFloat(r.Speed, 'f', 1, 64))
	}
	return t.Flush()
}

// benchDocument is what leat bench --json prints.
type benchDocument struct {
	Results []benchTest `json:"results"`
	SIMD    string      `json:"simd"` // of the CPU's stages; "" where there are none
	Devices []string    `json:"devices"`
}

func resultsOf(p *generate.Plan, results []benchTest) benchDocument {
	names, simd := devicesUsed(p)
	return benchDocument{results, simd, names}
}

func devicesUsed(p *generate.Plan) (names []string, simd string) {
	for _, s := range p.Stages {
		names = append(names, s.Devices())
		if s.Device.SIMD != "" {
			simd = s.Device.SIMD
		}
	}
	return names, simd
}
