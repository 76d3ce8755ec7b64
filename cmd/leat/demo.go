package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

type demoFlags struct {
	json       bool
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

In a terminal the stages' loads and the stories are drawn live: for three seconds
round after round of stories is written; then the first round is written again
through this pipeline, through one stage on its first device, and through one
stage on all cores, in turns, to compare speeds and texts. The key q ends it early,
with what is known by then. Elsewhere the stages, the stories of the first round
and the comparison are printed as lines.

The stories are the same each time unless --seed, another flag of the generation
or another kind of device changes them.`,
		Example: `  leat demo
  leat demo --devices cpu:0,cpu:0,cpu:1 --seed 7
  leat demo --json`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	jsonFlag(flags, &f.json)
	f.generation.add(flags)
	f.generation.sampling.Seed = demoSeed
	flags.Lookup("seed").DefValue = fmt.Sprint(demoSeed)
	f.pipeline.add(c, len(openings))
	flags.Lookup("devices").DefValue = "all cores in as many stages, at least 2"
	return c
}

func (f *demoFlags) run(c *cobra.Command) (err error) {
	like, err := f.generation.request()
	if err != nil {
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
	e, err := f.pipeline.start(ctx, c.ErrOrStderr(), m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	d, err := newDemo(ctx, e.Engine, m, &f.pipeline, like)
	switch {
	case err != nil:
		return err
	case f.json:
		return d.json(ctx, stdout)
	case isTerminal(stdout) && os.Getenv("TERM") != "dumb":
		return d.live(ctx, c.InOrStdin(), stdout)
	default:
		return d.plain(ctx, stdout)
	}
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
	like       generate.Request  // all but the prompt and the seed
	stories    []generate.Result // of round 0
	comparison comparison
	writing    time.Duration // that rounds are begun for, in a terminal
}

// newDemo plans what the engine, made by the flags, is to be compared with.
func newDemo(ctx context.Context, e *generate.Engine, m *model.Model, flags *pipelineFlags, like generate.Request) (*demo, error) {
	d := &demo{engine: e, like: like, writing: writingTime}
	self := newContender(e.Plan())
	self.engine = e
	d.comparison = comparison{contenders: []*contender{self}, requests: roundOf(0, like), least: sampleTime}
	for _, name := range rivals(e.Plan()) {
		p, err := generate.NewPlan(ctx, m, flags.alone(name).options()...)
		if err != nil {
			return nil, err
		}
		c := newContender(p)
		if !slices.ContainsFunc(d.comparison.contenders, func(o *contender) bool { return o.where == c.where }) {
			d.comparison.contenders = append(d.comparison.contenders, c)
		}
	}
	return d, nil
}

// tell writes round 0.
func (d *demo) tell(ctx context.Context, each func(story int, t generate.Token, so generate.Result)) (err error) {
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
		maxWait:  f.maxWait,
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
	out.summary(d.document())
	return out.err
}

// live draws what happens, and prints the stories and the summary afterwards. If
// it was ended early, they are what was known by then.
func (d *demo) live(ctx context.Context, in io.Reader, w io.Writer) error {
	if !isTerminal(in) {
		in = nil // nobody types
	}
	b := newBoard(d.comparison.standings())
	v := newLiveView(b, d.engine.Stats, in != nil)
	err := watch(ctx, v, in, w, func(ctx context.Context) (err error) {
		if d.stories, err = b.rounds(ctx, d.engine, d.like, d.writing); err == nil {
			b.measure()
			err = d.compare(ctx, b.compare)
		}
		return err
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
	out.summary(d.document())
	if err == nil {
		err = out.err
	}
	return err
}
