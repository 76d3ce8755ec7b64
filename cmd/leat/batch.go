package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/pipeline/generate"
)

type batchFlags struct {
	model      string
	in, out    string
	json       bool
	generation generationFlags
	pipeline   pipelineFlags
}

func batchCommand() *cobra.Command {
	var f batchFlags
	c := &cobra.Command{
		Use:   "batch -m FILE -i IN.jsonl -o OUT.jsonl",
		Short: "Continue the prompts of a file, many at once",
		Long: `Continues many prompts at once. Each line of IN is a JSON object with a prompt, and
becomes a line of OUT, in the same order:

  {"id":7,"prompt":"Once upon a time","max_tokens":5,"temperature":0}
  {"id":7,"text":", there","tokens":[432,383,367],"prompt_tokens":5,"finish":"length"}

An id may be any JSON; it is copied as it stands, and is null where there is none.
Beside id and prompt a line may have max_tokens, temperature, top_k, top_p, min_p,
repeat_penalty, seed, stop (a text or a list of them) and raw, each in place of the
flag here. A line without a seed has its own, drawn from --seed and the number of the
line: the same file and --seed give the same output, whatever the pipeline is.

A line that can't be understood or continued has finish "error" and an error that
begins with its number. The others go on, and at the end the exit status is 1. Lines
may be up to 16 MiB long and end in CRLF; empty ones are skipped, but counted.

Results are written to OUT as they come, whole lines only. What stood there goes once
the model is loaded. Ctrl+C leaves the results of the lines up to the first that
wasn't finished, so that the rest of IN can be done later.`,
		Example: `  leat batch -m model.gguf -i prompts.jsonl -o results.jsonl --devices cuda:0,cuda:1
  leat batch -m model.gguf -i - -o - --temp 0 -n 64 < prompts.jsonl | less`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	flags.StringVarP(&f.in, "input", "i", "", "read prompts from `FILE`; -: standard input")
	flags.StringVarP(&f.out, "output", "o", "", "write results to `FILE`; -: standard output")
	flags.BoolVar(&f.json, "json", false, "print JSON that sums up the run")
	f.generation.add(flags)
	f.pipeline.add(flags, 64)
	return c
}

func (f *batchFlags) check() error {
	switch {
	case f.in == "":
		return usage("no input: name a file with -i FILE, or - for standard input")
	case f.out == "":
		return usage("no output: name a file with -o FILE, or - for standard output")
	case f.out == standardOutput && f.json:
		return usage("-o - and --json exclude each other: both print to standard output")
	}
	if _, err := f.generation.request(); err != nil {
		return err
	}
	return f.pipeline.check()
}

// window is how many lines a sequence that may run at once are between the
// reader and the writer: enough for a sequence's place to be taken again while
// an earlier line takes three times as long as the others.
const window = 4

func (f *batchFlags) run(c *cobra.Command) (err error) {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	if err := f.check(); err != nil {
		return err
	}
	m, err := openModel(f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	in, err := openBatchInput(f.in, c.InOrStdin())
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := openBatchOutput(f.out, stdout, map[string]any{"-i " + f.in: in.Reader, "-m " + f.model: f.model})
	if err != nil {
		return err
	}
	defer closing(out, &err)
	e, err := f.pipeline.start(ctx, stderr, m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	if err := out.begin(); err != nil {
		return err
	}

	w := &flow{
		window:  window * f.pipeline.maxSeqs,
		prepare: func(l inputLine) *task { return f.task(e.Engine, l) },
		work:    func(ctx context.Context, t *task) { t.run(ctx, e.Engine) },
	}
	w.tally.total = in.size
	if isTerminal(stderr) && (f.out != standardOutput || !isTerminal(stdout)) {
		w.show = newBar(stderr, "writing")
	}
	err = w.run(ctx, in, out)
	w.tally.seed = f.generation.sampling.Seed
	if !f.json {
		return w.tally.report(stderr, f.out, err)
	}
	if failed := printJSON(stdout, w.tally.document()); err == nil {
		err = failed
	}
	return w.tally.report(io.Discard, f.out, err)
}

// task is what a line asks for, with the prompt's tokens, or with the error that
// is its result.
func (f *batchFlags) task(e *generate.Engine, l inputLine) *task {
	t := &task{number: l.number}
	if t.err = l.err; t.err != nil {
		return t
	}
	if t.id, t.request, t.err = readLine(f.generation, l); t.err == nil {
		t.request.Tokens, t.err = e.Tokens(t.request.Prompt)
		t.request.Prompt = "" // the window holds tokens alone
	}
	return t
}

// run continues the task's prompt.
func (t *task) run(ctx context.Context, e *generate.Engine) {
	var text strings.Builder
	for step, err := range e.Stream(ctx, t.request) {
		if err != nil {
			t.err = err
			return
		}
		if step.ID >= 0 {
			t.tokens = append(t.tokens, step.ID)
			t.count()
		}
		text.WriteString(step.Text)
		t.finish = step.Finish
	}
	t.text = text.String()
}

// report tells how the run went: on w, or by the error that it returns, which
// is err unless that is nil.
func (p *tally) report(w io.Writer, out string, err error) error {
	switch {
	case err == nil && p.failed > 0:
		if out == standardOutput {
			out = "the output"
		}
		return fmt.Errorf("%d of %s failed: each says why under \"error\" in %s; %s", p.failed, counted(p.lines, "line"), out, p)
	case err == nil:
		fmt.Fprintf(w, "%s, %s\n", counted(p.lines, "line"), p)
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(w, "interrupted after %s, %d failed, %s\n", counted(p.lines, "line"), p.failed, p)
	}
	return err
}
