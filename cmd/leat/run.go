package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

type runFlags struct {
	model      string
	json       bool
	prompt     promptFlags
	generation generationFlags
	pipeline   pipelineFlags
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run -m FILE [-p TEXT | -f FILE]",
		Short: "Continue a prompt",
		Long: `Continues a prompt and prints the text as it is written, without the prompt. The
prompt comes from -p, from a file, or from standard input. Without --seed the text is
another one each time; the seed that was drawn is told on standard error, or with
--json, and gives the same text again.

With --logprobs N a table follows the text: a row for each token, with the logarithm of
its probability, its probability, and the N tokens that were most likely in its place.
Probabilities are the model's own, before --temp and the flags after it change them. With
--json the object has them under "logprobs", as OpenAI's API has:

  {"content":[{"id":383,"token":" there","logprob":-0.52,"top_logprobs":[
    {"id":383,"token":" there","logprob":-0.52},
    {"id":322,"token":" in","logprob":-1.9}]}]}

A token that is not whole characters also has its "bytes". A "logprob" of -9999 is that
of a token that is impossible.`,
		Example: `  leat run -m model.gguf -p "Once upon a time"
  leat run -m model.gguf -f prompt.txt --temp 0 -n 64 --json
  leat run -m model.gguf -p "Once upon a time" --temp 0 -n 8 --logprobs 3
  printf "Once upon a time" | leat run -m model.gguf --devices cpu/2`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	f.prompt.add(flags)
	jsonFlag(flags, &f.json)
	f.generation.add(flags)
	f.generation.addLogProbs(flags)
	f.pipeline.add(c, 1)
	f.pipeline.waitsForNone("there is one prompt")
	return c
}

func (f *runFlags) run(c *cobra.Command) (err error) {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	request, err := f.generation.request()
	if err != nil {
		return err
	}
	if err := f.prompt.check(); err != nil {
		return err
	}
	if err := f.pipeline.check(); err != nil {
		return err
	}
	if f.pipeline.placement == files.Standard && !f.prompt.given() {
		return usage("--placement - takes standard input: give the prompt with -p or -f")
	}
	began := time.Now()
	m, err := openModel(ctx, f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	f.generation.warn(stderr, m)
	loading := time.Since(began)
	prompt, err := f.prompt.read(ctx, c.InOrStdin(), stderr)
	if err != nil {
		return err
	}
	began = time.Now()
	e, err := f.pipeline.start(ctx, stderr, m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	loading += time.Since(began)

	w := stdout
	if f.json {
		w = io.Discard
	}
	done := continuation{finish: generate.Failed}
	if request.LogProbs {
		done.scores = newScores(e.Tokenizer())
	}
	if request.Tokens, err = e.Tokens(prompt); err == nil {
		err = done.write(ctx, w, e.Engine, request)
	}
	if f.json {
		if failed := printJSON(stdout, done.document(request, e.Stats().Stages, loading)); err == nil {
			err = failed
		}
		return err
	}
	if done.scores != nil && len(done.tokens) > 0 {
		if failed := done.scores.print(stdout); err == nil {
			err = failed
		}
	}
	told := ""
	if f.generation.drawn() {
		told = fmt.Sprintf("seed %d", request.Seed)
	}
	if isTerminal(stderr) {
		told = strings.TrimSuffix(done.summary(request, e.Stats().Stages)+", "+told, ", ")
	}
	if told != "" && len(request.Tokens) > 0 {
		fmt.Fprintln(stderr, told)
	}
	return err
}

// continuation is what was written for a request, and when.
type continuation struct {
	text               strings.Builder
	tokens             []int32
	scores             *scores // nil: not asked for
	finish             generate.Finish
	asked, first, last time.Time // of the request; of the first and last step
}

// write has the engine continue the request and passes the text on to w as it
// comes. With an error, what was written until then stays.
func (d *continuation) write(ctx context.Context, w io.Writer, e *generate.Engine, r generate.Request) (err error) {
	d.asked = time.Now()
	d.first, d.last = d.asked, d.asked
	defer func() {
		if text := d.text.String(); !strings.HasSuffix(text, "\n") && (err == nil || text != "") {
			_, failed := io.WriteString(w, "\n")
			if err == nil {
				err = failed
			}
		}
	}()
	for t, err := range e.Stream(ctx, r) {
		if d.last = t.At; err != nil {
			d.last = time.Now()
		}
		if d.first == d.asked {
			d.first = d.last
		}
		d.finish = t.Finish
		if t.ID >= 0 {
			d.tokens = append(d.tokens, t.ID)
			d.scores.add(t)
		}
		d.text.WriteString(t.Text)
		if err != nil {
			return err
		}
		if t.Text == "" {
			continue
		}
		if _, err := io.WriteString(w, t.Text); err != nil {
			d.finish = generate.Failed
			return err
		}
	}
	return nil
}

// prefill and decode are in tokens a second, 0 where there is nothing to count.
func (d *continuation) prefill(prompt int) float64 {
	return perSecond(prompt, d.first.Sub(d.asked))
}

func (d *continuation) decode() float64 {
	return perSecond(len(d.tokens)-1, d.last.Sub(d.first))
}

func perSecond(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func (d *continuation) summary(r generate.Request, stages []pipeline.StageStats) string {
	var names []string
	for _, s := range stages {
		names = append(names, s.Devices())
	}
	return fmt.Sprintf("%d prompt tokens at %.1f tokens/s, %d tokens at %.1f tokens/s, stages: %s",
		len(r.Tokens), d.prefill(len(r.Tokens)), len(d.tokens), d.decode(), join(names))
}

// runDocument is what leat run --json prints.
type runDocument struct {
	Text         string          `json:"text"`
	PromptTokens int             `json:"prompt_tokens"`
	PromptIDs    []int32         `json:"prompt_token_ids"`
	Tokens       []int32         `json:"tokens"`
	Finish       generate.Finish `json:"finish"`
	Seed         uint64          `json:"seed"`
	LogProbs     *scoresDocument `json:"logprobs,omitempty"`
	Stages       []stageDocument `json:"stages"`
	Timing       timingDocument  `json:"timing"`
}

type stageDocument struct {
	Device string  `json:"device"`
	From   int     `json:"from"`
	To     int     `json:"to"`
	Layers string  `json:"layers"`
	Bytes  int64   `json:"bytes"`
	Busy   float64 `json:"busy"` // share of the time, 0 to 1
}

type timingDocument struct {
	Load    float64 `json:"load_ms"`
	Prefill float64 `json:"prefill_tps"`
	Decode  float64 `json:"decode_tps"`
}

func (d *continuation) document(r generate.Request, stages []pipeline.StageStats, loading time.Duration) runDocument {
	doc := runDocument{
		Text:         d.text.String(),
		PromptTokens: len(r.Tokens),
		PromptIDs:    append([]int32{}, r.Tokens...),
		Tokens:       append([]int32{}, d.tokens...),
		Finish:       d.finish,
		Seed:         r.Seed,
		LogProbs:     d.scores.document(),
		Timing: timingDocument{
			Load:    decimals(loading.Seconds()*1000, 1),
			Prefill: decimals(d.prefill(len(r.Tokens)), 1),
			Decode:  decimals(d.decode(), 1),
		},
	}
	for _, s := range stages {
		doc.Stages = append(doc.Stages, stageDocument{s.Devices(), s.From, s.To, s.Layers, s.Bytes(), decimals(s.Share, 3)})
	}
	return doc
}

// decimals rounds x to n of them.
func decimals(x float64, n int) float64 {
	unit := math.Pow10(n)
	return math.Round(x*unit) / unit
}
