package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
)

type planFlags struct {
	model    string
	whatIf   string
	svg      string
	json     bool
	pipeline pipelineFlags
}

func planCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan -m FILE",
		Short: "Show where each layer would go",
		Long: `Shows which layers would go to which device, the bytes that they would take there,
and the devices' budgets. Loads nothing.

A round is one batch through all stages; each stage has its expected share of it. The
stage with the largest sets the pace. "Expected 1.9 × one device" compares the
pipeline, once full, with the fastest of its devices, were it to hold all layers.

With --json the object is a placement file too, for --placement: its layers are named
embedding, 0, 1-2 (blocks) and output. Entries from and to are counted in forward
order: 0 is the embedding, then each block, then the output head; to is not included.

--what-if plans for devices that this machine doesn't have. It is an estimate:
docs/plans.md says what it assumes that they need and do.`,
		Example: `  leat plan -m model.gguf --devices cuda:0=20GiB,cpu
  leat plan -m model.gguf --devices cpu/2 --ctx 2048 --max-seqs 16 --json
  leat plan -m model.gguf --what-if cuda:0=24GiB@3,cuda:1=12GiB@1,cpu=32GiB@0.2
  leat plan -m model.gguf --svg plan.svg`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	jsonFlag(flags, &f.json)
	flags.StringVar(&f.svg, "svg", "", "draw the plan into `FILE`, as an SVG picture; -: standard output, and nothing else")
	read(flags, "what-if", "", "plan for devices that this machine doesn't have, `LIST` as for --devices: cuda:0=24GiB@3,cpu", &f.whatIf, imagined)
	outputFile(flags, "svg")
	f.pipeline.add(c, 64)
	return c
}

// imagined checks a list of devices that aren't here.
func imagined(text string) (string, error) {
	_, err := device.WhatIf(text)
	return text, err
}

func (f *planFlags) run(c *cobra.Command) (err error) {
	if err := f.check(c); err != nil {
		return err
	}
	m, err := openModel(c.Context(), f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	stdout := c.OutOrStdout()
	p, err := f.plan(c.Context(), c.ErrOrStderr(), m)
	if err != nil {
		if f.json {
			err = errors.Join(err, printNoFit(stdout, err))
		}
		return err
	}
	v := newPlanView(m, p)
	if f.whatIf != "" {
		v.estimate = estimateOf(f.whatIf)
		fmt.Fprintf(c.ErrOrStderr(), "leat: --what-if: %s\n", v.estimate)
	}
	if f.svg != "" {
		if err := f.draw(c.Context(), stdout, v); err != nil || files.IsStandardOutput(f.svg) {
			return err
		}
	}
	if f.json {
		doc, err := documentOf(p)
		if err != nil {
			return err
		}
		return printIndented(stdout, doc)
	}
	return v.print(stdout)
}

// check says which flags don't go together.
func (f *planFlags) check(c *cobra.Command) error {
	flags := c.Flags()
	switch {
	case flags.Changed("trace"):
		return usage("--trace: a plan runs nothing that could be traced")
	case files.IsStandardOutput(f.svg) && f.json:
		return usage("--svg - and --json exclude each other: both print to standard output")
	case f.whatIf == "":
		return nil
	}
	for _, other := range []struct{ flag, why string }{
		{"devices", "each lists the devices"},
		{"placement", "a placement is for devices that are here"},
		{"threads", "write the cores into the list, as in cpu:0-3"},
		{"reserve", "write smaller budgets into the list"},
	} {
		if flags.Changed(other.flag) {
			return usage("--what-if and --%s exclude each other: %s", other.flag, other.why)
		}
	}
	return nil
}

// plan is what the flags ask for, on devices that are here or imagined.
func (f *planFlags) plan(ctx context.Context, stderr io.Writer, m *model.Model) (*generate.Plan, error) {
	if f.whatIf == "" {
		return f.pipeline.plan(ctx, stderr, m)
	}
	f.pipeline.warn(stderr, m)
	f.pipeline.devices, f.pipeline.imagined = f.whatIf, true
	return f.pipeline.place(ctx, stderr, m)
}

// draw writes the picture to where --svg says.
func (f *planFlags) draw(ctx context.Context, stdout io.Writer, v *planView) error {
	out, err := files.Create(ctx, f.svg, stdout)
	if err != nil {
		return err
	}
	defer out.Discard()
	_, _ = io.WriteString(out, v.svg()) // Commit tells the error
	return out.Commit()
}

// estimateOf says what a plan for an imagined list is worth.
func estimateOf(list string) string {
	text := "an estimate for devices that aren't here: memory is what the list says"
	entries, _ := device.ParseList(list) // read when the flag was
	var choices []device.Choice
	for _, c := range entries {
		choices = append(append(choices, c), c.Also...)
	}
	var guesses []string
	for _, k := range device.Kinds {
		for _, c := range choices {
			named := k == device.CPU && strings.Contains(c.Name, ":") // its cores are known
			if c.Speed == 0 && strings.HasPrefix(c.Name, k.String()) && !named {
				guesses = append(guesses, fmt.Sprintf("%s %g", k, device.GuessedSpeed(k)))
				break
			}
		}
	}
	if guesses == nil {
		return text + ", and so are speeds"
	}
	return text + "; speeds without @X are guesses, in CPU cores: " + strings.Join(guesses, ", ")
}

// counted says how many there are of something.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// join is names in the order in which activations go through them.
func join(names []string) string { return strings.Join(names, " → ") }
