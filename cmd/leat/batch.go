package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/pipeline/generate"
)

type batchFlags struct {
	model      string
	in, out    string
	resumed    bool
	overwrite  bool
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
In place of a prompt a line may have tokens, a list of ids. It may also have
max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop (a text or a
list of them), raw and logprobs (a number, or false), each in place of the flag here;
null is as if it weren't there.
A line without a seed has its own, drawn from --seed and the number of the line, empty
lines counted: the same file and --seed give the same output, whatever the pipeline is.

With logprobs a result also has "logprobs", in the form that 'leat run --help' shows.

A line that can't be understood or continued has finish "error" and an error that
begins with its number. The others go on, and at the end the exit status is 1. Lines
may be up to 16 MiB long and end in CRLF; empty ones are skipped, but counted.

Results are written to OUT as they come, whole lines only. Whatever ends the command
before IN is done, Ctrl+C or kill -9, the same command with --resume goes on: finished
lines are kept, and OUT gets the same bytes as without the break. Until it is complete,
OUT.resume stands beside OUT, with results that have to wait for lines before them, and
with the seed. An OUT that isn't empty is refused without --resume or --overwrite, and
so is one that another process is writing.`,
		Example: `  leat batch -m model.gguf -i prompts.jsonl -o results.jsonl --devices cuda:0,cuda:1
  leat batch -m model.gguf -i prompts.jsonl -o results.jsonl --resume
  leat batch -m model.gguf -i - -o - --temp 0 -n 64 < prompts.jsonl | less`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	flags.StringVarP(&f.in, "input", "i", "", "read prompts from `FILE`; -: standard input")
	flags.StringVarP(&f.out, "output", "o", "", "write results to `FILE`; -: standard output")
	inputFile(flags, "input")
	outputFile(flags, "output", journalEnding, journalEnding+".new")
	flags.BoolVar(&f.resumed, "resume", false, "keep the results that are in OUT, and do the rest of IN")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace an OUT that isn't empty")
	flags.BoolVar(&f.json, "json", false, "print JSON that sums up the run")
	f.generation.add(flags)
	f.generation.addLogProbs(flags)
	f.pipeline.add(c, 64)
	return c
}

func (f *batchFlags) check() error {
	switch {
	case f.in == "":
		return usage("no input: name a file with -i FILE, or - for standard input")
	case f.out == "":
		return usage("no output: name a file with -o FILE, or - for standard output")
	case files.IsStandardOutput(f.out) && f.json:
		return usage("-o - and --json exclude each other: both print to standard output")
	case f.resumed && f.overwrite:
		return usage("--resume and --overwrite exclude each other")
	case files.IsStandardOutput(f.out) && (f.resumed || f.overwrite):
		return usage("-o -: standard output holds nothing that could be kept or replaced")
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
	m, err := openModel(ctx, f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	f.generation.warn(stderr, m)
	in, err := files.Open(ctx, f.in, c.InOrStdin())
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	out, err := openBatchOutput(ctx, f.out, stdout)
	if err != nil {
		return err
	}
	defer closing(out, &err)
	resume, err := f.resume(c, out)
	if err != nil {
		return err
	}
	defer resume.past.Close()
	e, err := f.pipeline.start(ctx, stderr, m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	kept, err := resume.begin(f, out, func(err error) {
		fmt.Fprintf(stderr, "leat: warning: this can't be resumed if it is ended: %s\n", oneLine(err.Error()))
	})
	if err != nil {
		return err
	}

	w := &flow{
		window:  window * f.pipeline.maxSeqs,
		prepare: func(l inputLine) (*task, error) { return f.task(e.Engine, l, resume.past) },
		work:    func(ctx context.Context, t *task) { t.run(ctx, e.Engine) },
		ended: func(lines int) error {
			e.SetMaxWait(0)
			return resume.past.ended(lines)
		},
		journal: kept,

		mostScored: scoredRoom(e.Plan()),
	}
	w.tally.total = in.Size()
	if isTerminal(stderr) && (out.file != nil || !isTerminal(stdout)) {
		w.show = newBar(stderr, "writing")
	}
	err = w.run(ctx, in, out)
	if kept != nil {
		end := kept.Close
		if err == nil {
			end = kept.Remove
		}
		if failed := end(); err == nil {
			err = failed
		}
	}
	w.tally.seed = f.generation.sampling.Seed
	if err != nil && out.regular && kept != nil {
		w.tally.next = fmt.Sprintf("; line %d is next: the same command with --resume goes on there", w.next())
	} else if err != nil {
		w.tally.next = fmt.Sprintf("; line %d is next", w.next())
	}
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
// A line that is done already has the result that is there.
func (f *batchFlags) task(e *generate.Engine, l inputLine, past *past) (*task, error) {
	t := &task{number: l.number, err: l.err}
	if t.err == nil {
		t.id, t.request, t.err = readLine(f.generation, l)
	}
	if done, err := past.task(l, t.id); done != nil || err != nil {
		return done, err
	}
	if t.err == nil && t.request.Tokens == nil {
		t.request.Tokens, t.err = e.Tokens(t.request.Prompt)
		t.request.Prompt = "" // the window holds tokens alone
	}
	if t.err == nil && t.request.LogProbs {
		t.scored = scoredBytes(min(t.request.MaxTokens, e.Plan().Context), t.request.TopLogProbs)
	}
	return t, nil
}

// run continues the task's prompt.
func (t *task) run(ctx context.Context, e *generate.Engine) {
	if t.request.LogProbs {
		t.scores = newScores(e.Tokenizer())
	}
	var text strings.Builder
	for step, err := range e.Stream(ctx, t.request) {
		if err != nil {
			t.err = err
			return
		}
		if step.ID >= 0 {
			t.tokens = append(t.tokens, step.ID)
			t.scores.add(step)
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
		if files.IsStandardOutput(out) {
			out = "the output"
		}
		return fmt.Errorf("%d of %s failed: each says why under \"error\" in %s; %s", p.failed, counted(p.lines, "line"), out, p)
	case err == nil:
		fmt.Fprintf(w, "%s, %s\n", counted(p.lines, "line"), p)
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(w, "interrupted after %s, %d failed, %s%s\n", counted(p.lines, "line"), p.failed, p, p.next)
	}
	return err
}
