package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

type demoFlags struct {
	json       bool
	svg        string
	generation generationFlags
	pipeline   pipelineFlags
}

// demoSeed is fixed, so that the demo tells everybody the same stories.
const demoSeed = 1

func demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the pipeline at work on the model inside the binary",
		Long: `Writes eight stories at once with a small model that is inside the binary, through
two or more stages. Needs no file and no network, and takes a few seconds.

In a terminal the demo is drawn live: batches travel from stage to stage, in slow
motion, the stages' loads rise, and the stories grow. For three seconds round
after round of stories is written. Then the first round is written again, in
turns, by this pipeline with all stories at once, by this pipeline with one story
after the other, and by one stage on its first device and on all cores, to
compare speeds and texts. The key q ends it early, with what is known by then.
Elsewhere the stages, the stories of the first round, its batches and the
comparison are printed as lines.

If the pipeline is slower than one of the others, the demo says why, from what it
measured: fewer cores than stages, other programs on the cores, batches that are
too small, stages of unequal length.

The stories are the same each time unless --seed, another flag of the generation
or another kind of device changes them.`,
		Example: `  leat demo
  leat demo --devices cpu:0,cpu:0,cpu:1 --seed 7
  leat demo --svg demo.svg
  leat demo --json`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	jsonFlag(flags, &f.json)
	flags.StringVar(&f.svg, "svg", "", "also draw what happened into `FILE`, as an SVG picture")
	outputFile(flags, "svg")
	f.generation.add(flags)
	f.generation.sampling.Seed = demoSeed
	flags.Lookup("seed").DefValue = fmt.Sprint(demoSeed)
	f.pipeline.add(c, len(openings))
	f.pipeline.waitsForNone("all stories begin together")
	flags.Lookup("devices").DefValue = "all cores in as many stages, at least 2"
	return c
}

func (f *demoFlags) run(c *cobra.Command) (err error) {
	if files.IsStandardOutput(f.svg) || f.svg == "" && c.Flags().Changed("svg") {
		return usage("--svg: it takes the name of a file, which will be the picture")
	}
	like, err := f.generation.request()
	if err != nil {
		return err
	}
	if err := f.pipeline.check(); err != nil {
		return err
	}
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	if flags := c.Flags(); !flags.Changed("devices") && !flags.Changed("placement") {
		f.pipeline.devices = demoDevices(len(m.Layers), f.pipeline.threads)
	}
	ctx, stdout := c.Context(), c.OutOrStdout()
	record := newRecorder()
	e, err := f.pipeline.start(ctx, c.ErrOrStderr(), m, record)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	d, err := newDemo(ctx, e.Engine, m, &f.pipeline, like)
	if err != nil {
		return err
	}
	d.record = record
	switch {
	case f.json:
		err = d.json(ctx, stdout)
	case isTerminal(stdout) && os.Getenv("TERM") != "dumb":
		err = d.live(ctx, c.InOrStdin(), stdout)
	default:
		err = d.plain(ctx, stdout)
	}
	if err == nil && f.svg != "" {
		err = d.draw(ctx, f.svg)
	}
	return err
}

// demoDevices is the demo's device list: a stage a core, at least two, so that
// there is a pipeline, and at most one an entry of the model.
func demoDevices(entries, threads int) string {
	cores := runtime.NumCPU()
	if threads > 0 {
		cores = min(cores, threads)
	}
	return fmt.Sprintf("cpu/%d", min(max(2, cores), entries))
}

// demo is one run of the demo.
type demo struct {
	engine     *generate.Engine
	record     *recorder         // of round 0
	like       generate.Request  // all but the prompt and the seed
	stories    []generate.Result // of round 0
	comparison comparison
	writing    time.Duration // that rounds are begun for, in a terminal
}

// newDemo plans what the engine, made by the flags, is to be compared with.
func newDemo(ctx context.Context, e *generate.Engine, m *model.Model, flags *pipelineFlags, like generate.Request) (*demo, error) {
	d := &demo{engine: e, record: newRecorder(), like: like, writing: writingTime}
	d.comparison = newComparison(e, roundOf(0, like))
	for _, name := range rivals(e.Plan()) {
		p, err := generate.NewPlan(ctx, m, flags.alone(name).options()...)
		if err != nil {
			return nil, err
		}
		d.comparison.add(newContender(p))
	}
	return d, nil
}

// tell writes round 0.
func (d *demo) tell(ctx context.Context, each follower) (err error) {
	d.record.begin(len(d.engine.Plan().Stages))
	defer d.record.end()
	d.stories, err = tell(ctx, d.engine, roundOf(0, d.like), each)
	return err
}

// compare measures the pipeline and its rivals on round 0.
func (d *demo) compare(ctx context.Context, report func([]standing)) error {
	d.comparison.want = d.stories
	return d.comparison.run(ctx, report)
}

// alone is the flags for one stage on a device: what says how a sequence is
// kept and what the machine may give stays, what shapes a pipeline goes.
func (f *pipelineFlags) alone(device string) *pipelineFlags {
	return &pipelineFlags{
		devices:  device,
		pack:     pipeline.Balanced,
		queue:    []int{1},
		maxBatch: f.maxBatch,
		maxSeqs:  f.maxSeqs,
		context:  f.context,
		kv:       f.kv,
		kvMemory: f.kvMemory,
		reserve:  f.reserve,
		threads:  f.threads,
	}
}

// json prints what happened.
func (d *demo) json(ctx context.Context, w io.Writer) error {
	err := d.tell(ctx, nil)
	if err == nil {
		err = d.compare(ctx, func([]standing) {})
	}
	if err != nil {
		return err
	}
	return printJSON(w, d.document())
}

// plain prints what happens, as it happens.
func (d *demo) plain(ctx context.Context, w io.Writer) error {
	out := &printer{w: w}
	out.stages(d.engine.Plan())
	err := d.tell(ctx, func(i int, t generate.Token, so generate.Result) {
		if t.Finish != "" {
			out.story(i, so)
		}
	})
	if err == nil {
		err = d.compare(ctx, func([]standing) {})
	}
	if err != nil {
		return err
	}
	out.batches(d.engine.Plan(), d.record.cut())
	out.summary(d.document())
	return out.err
}

// live draws what happens, and prints the stories and the summary afterwards. If
// it was ended early, they are what was known by then.
func (d *demo) live(ctx context.Context, in io.Reader, w io.Writer) error {
	if !isTerminal(in) {
		in = nil // it has no keys to read
	}
	b := newBoard(d.comparison.standings())
	v := newLiveView(b, func() []pipeline.StageStats { return d.engine.Stats().Stages }, in != nil)
	v.cut = d.record.cut
	err := watch(ctx, v, in, w, func(ctx context.Context) error {
		if err := b.rounds(ctx, d); err != nil {
			return err
		}
		b.measure()
		return d.compare(ctx, b.compare)
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		return err
	}
	out := &printer{w: w, width: v.width}
	out.sharing(d.engine.Plan())
	for i, s := range d.stories {
		if s.Finish == generate.Stop || s.Finish == generate.Length {
			out.story(i, s)
		}
	}
	out.batches(d.engine.Plan(), d.record.cut())
	out.summary(d.document())
	if err == nil {
		err = out.err
	}
	return err
}
