package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline/generate"
)

// demoDocument is what leat demo --json prints.
type demoDocument struct {
	Stages     []stageDocument    `json:"stages"`
	Stories    []storyDocument    `json:"stories"`
	Seed       uint64             `json:"seed"`  // of the first story; each has the next
	Cores      int                `json:"cores"` // that the pipeline's CPU stages use together
	Comparison []standingDocument `json:"comparison"`
	Same       *bool              `json:"same_texts"` // true, or null where devices of several kinds needn't write the same
	Why        string             `json:"why"`        // the pipeline is not ahead, "" if it is
}

type storyDocument struct {
	Prompt       string          `json:"prompt"`
	Text         string          `json:"text"`
	PromptTokens int             `json:"prompt_tokens"`
	PromptIDs    []int32         `json:"prompt_token_ids"`
	Tokens       []int32         `json:"tokens"`
	Finish       generate.Finish `json:"finish"`
}

type standingDocument struct {
	Devices []string `json:"devices"` // a stage each
	AtOnce  int      `json:"at_once"` // stories
	Speed   float64  `json:"tps"`     // tokens a second, of all stories together
	Ratio   float64  `json:"ratio"`   // how many times as fast the pipeline, the first, is

	Rows    float64   `json:"rows"`    // a batch, the mean
	Samples []float64 `json:"samples"` // tokens a second

	where, short string
}

// how is in which order the stories were written.
func (s standingDocument) how() string {
	if s.AtOnce == 1 {
		return "one by one"
	}
	return "all at once"
}

// document is what is known by now.
func (d *demo) document() demoDocument {
	doc := demoDocument{Seed: d.like.Seed, Cores: coresOf(d.engine.Plan()), Comparison: []standingDocument{}}
	for i, s := range d.comparison.standings() {
		if s.tps == 0 {
			continue
		}
		c := d.comparison.contenders[i]
		row := standingDocument{AtOnce: len(openings), Speed: decimals(s.tps, 1), Ratio: decimals(s.ratio, 2), Rows: decimals(c.rows(), 2), where: s.where, short: s.short}
		if c.oneByOne {
			row.AtOnce = 1
		}
		for _, stage := range c.plan.Stages {
			row.Devices = append(row.Devices, stage.Devices())
		}
		for _, speed := range c.speeds {
			row.Samples = append(row.Samples, decimals(speed, 1))
		}
		doc.Comparison = append(doc.Comparison, row)
	}
	doc.Why = d.comparison.why()
	self := d.comparison.contenders[0]
	for i, s := range d.engine.Stats().Stages {
		busy := s.Share
		if self.wall > 0 {
			busy = self.share(i) // of the time measured, in which it had work
		}
		doc.Stages = append(doc.Stages, stageDocument{s.Devices(), s.From, s.To, s.Layers, s.Bytes(), decimals(busy, 3)})
	}
	for i, s := range d.stories {
		doc.Stories = append(doc.Stories, storyDocument{openings[i], s.Text, len(s.Prompt), append([]int32{}, s.Prompt...), append([]int32{}, s.Tokens...), s.Finish})
	}
	if d.comparison.same() {
		doc.Same = new(true)
	}
	return doc
}

// coresOf counts the cores of a plan's CPU stages.
func coresOf(p *generate.Plan) int {
	cores := map[int]bool{}
	for _, s := range p.Stages {
		for _, r := range s.Each() {
			for _, c := range r.Device.Cores {
				cores[c] = true
			}
		}
	}
	return len(cores)
}

// printer prints the demo's lines. It keeps the first error of its writer.
type printer struct {
	mu    sync.Mutex
	w     io.Writer
	width int // of its lines; 0: any
	err   error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table prints rows of cells below each other.
func (p *printer) table(rows func(t io.Writer)) {
	p.fitting(rows)
}

// fitting prints the first of some tables whose lines fit, or else the last.
func (p *printer) fitting(tables ...func(t io.Writer)) {
	for i, rows := range tables {
		var text strings.Builder
		t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		rows(t)
		_ = t.Flush() // a Builder takes everything
		if p.width == 0 || i == len(tables)-1 || lipgloss.Width(text.String()) <= p.width {
			p.printf("%s", text.String())
			return
		}
	}
}

// stages prints what each stage holds, before it works.
func (p *printer) stages(plan *generate.Plan) {
	p.table(func(t io.Writer) {
		for i, s := range plan.Stages {
			fmt.Fprintf(t, "stage %d\t%s\t%s\t%s\n", i, s.Devices(), s.Layers, device.FormatSize(s.Bytes()))
		}
	})
	p.sharing(plan)
	p.printf("\n")
}

// sharing says that stages share cores, if they do.
func (p *printer) sharing(plan *generate.Plan) {
	stages := 0 // on the CPU
	for _, s := range plan.Stages {
		if len(s.Device.Cores) > 0 {
			stages++
		}
	}
	if cores := coresOf(plan); cores > 0 && cores < stages {
		p.printf("%s share %s: they can't all work at the same time.\n", counted(stages, "stage"), counted(cores, "core"))
	}
}

// story prints a story that is told to its end. It may be called from any
// goroutine.
func (p *printer) story(i int, s generate.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	label, text := fmt.Sprintf("story %d: ", i+1), shown(openings[i]+s.Text)
	if inner := p.width - len(label); inner > len(label) {
		text = strings.ReplaceAll(ansi.Wrap(text, inner, ""), "\n", "\n"+strings.Repeat(" ", len(label)))
	}
	p.printf("%s%s\n", label, text)
}

// batches prints a few batches on their way through the stages.
func (p *printer) batches(plan *generate.Plan, e *excerpt) {
	if e == nil {
		return
	}
	names := 0
	for _, s := range plan.Stages {
		names = max(names, len(s.Devices()))
	}
	width := p.width
	if width == 0 {
		width = lineWidth
	}
	width = min(width, lineWidth) - names - len("  ")
	if width < leastPath {
		return
	}
	n := len(e.batches())
	p.printf("\n")
	p.wrapped(fmt.Sprintf("%s of the first round, %s from left to right: a letter is a batch, a dot is a stage that waits for one.", batchCount(n), micros(e.length)))
	for i, line := range e.timeline(width) {
		p.printf("%s  %s\n", pad(plan.Stages[i].Devices(), names), line)
	}
}

// lineWidth is that of prose and pictures where there is no terminal.
const lineWidth = 80

// wrapped prints prose.
func (p *printer) wrapped(text string) {
	if p.width > 0 {
		text = ansi.Wrap(text, p.width, "")
	}
	p.printf("%s\n", text)
}

// summary prints first what all runs have in common, then how fast they were, and
// why, if the pipeline is not the fastest.
func (p *printer) summary(doc demoDocument) {
	p.printf("\n")
	if len(doc.Comparison) == 0 {
		p.load(doc.Stages)
		p.printf("\nEnded before anything was compared.\n")
		return
	}
	p.wrapped(doc.headline())
	if c := doc.contrast(); c != "" {
		p.wrapped(c)
	}
	p.printf("\n")
	p.standings(doc)
	if doc.Why != "" {
		p.printf("\n")
		p.wrapped(doc.Why)
	}
	p.printf("\n")
	p.load(doc.Stages)
}

// standings prints how fast all were: in words, in numbers, or without the names of
// devices, as there is room.
func (p *printer) standings(doc demoDocument) {
	title := fmt.Sprintf("the same %d stories", len(doc.Stories))
	p.fitting(func(t io.Writer) {
		fmt.Fprintf(t, "%s\t\ttokens/s\n", title)
		for i, s := range doc.Comparison {
			fmt.Fprintf(t, "%s\t%s\t%8s\t%s\n", s.how(), s.where, humanize.Comma(int64(s.Speed)), s.note(i))
		}
	}, func(t io.Writer) {
		fmt.Fprintf(t, "%s\t\ttokens/s\tpipeline\n", title)
		for i, s := range doc.Comparison {
			fmt.Fprintf(t, "%s\t%s\t%8s\t%8s\n", s.how(), s.where, humanize.Comma(int64(s.Speed)), s.times(i))
		}
	}, func(t io.Writer) {
		for i, s := range doc.Comparison {
			fmt.Fprintf(t, "%s\t%8s\t%s\n", s.short, humanize.Comma(int64(s.Speed)), s.times(i))
		}
	}, func(t io.Writer) {
		for i, s := range doc.Comparison {
			fmt.Fprintf(t, "%s\t%s\n", s.short, s.times(i))
		}
	})
}

// note is how many times as fast the pipeline, the first, is.
func (s standingDocument) note(i int) string {
	switch {
	case i == 0:
		return "this pipeline"
	case s.AtOnce == 1:
		return fmt.Sprintf("all at once is %.2f times as fast", s.Ratio)
	}
	return fmt.Sprintf("the pipeline is %.2f times as fast", s.Ratio)
}

func (s standingDocument) times(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", s.Ratio)
}

// load prints what the stages hold and how busy they were.
func (p *printer) load(stages []stageDocument) {
	p.fitting(func(t io.Writer) {
		fmt.Fprintln(t, "stage\tdevice\tlayers\tmemory\tbusy")
		for i, s := range stages {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%.0f%%\n", i, s.Device, s.Layers, device.FormatSize(s.Bytes), 100*s.Busy)
		}
	}, func(t io.Writer) {
		for _, s := range stages {
			fmt.Fprintf(t, "%s\tbusy\t%.0f%%\n", s.Device, 100*s.Busy)
		}
	})
}

// headline says what all runs have in common: the texts.
func (doc demoDocument) headline() string {
	n := 0
	for _, s := range doc.Stories {
		n += len(s.Tokens)
	}
	wrote := fmt.Sprintf("%d stories, %s tokens", len(doc.Stories), humanize.Comma(int64(n)))
	switch runs := len(doc.Comparison); {
	case doc.Same == nil:
		return fmt.Sprintf("%s. The texts were not compared.", wrote)
	case runs == 2:
		return fmt.Sprintf("Both runs wrote the very same texts, token for token: %s.", wrote)
	default:
		return fmt.Sprintf("All %d runs wrote the very same texts, token for token: %s.", runs, wrote)
	}
}

// contrast says what serving all users at once brings, "" while that isn't known.
func (doc demoDocument) contrast() string {
	for _, s := range doc.Comparison {
		if s.AtOnce == 1 {
			return fmt.Sprintf("%d users at once are served %.2f times as fast as one user after the other.", len(doc.Stories), s.Ratio)
		}
	}
	return ""
}

func batchCount(n int) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}
