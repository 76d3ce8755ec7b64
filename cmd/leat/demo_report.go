package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

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
	Speed   float64  `json:"tps"`     // tokens a second, of all stories together
	Ratio   float64  `json:"ratio"`   // how many times as fast the pipeline, the first, is

	where string
}

// document is what is known by now.
func (d *demo) document() demoDocument {
	doc := demoDocument{Seed: d.like.Seed, Cores: coresOf(d.engine.Plan()), Comparison: []standingDocument{}}
	for i, s := range d.comparison.standings() {
		if s.tps == 0 {
			continue
		}
		row := standingDocument{Speed: decimals(s.tps, 1), Ratio: decimals(s.ratio, 2), where: s.where}
		for _, stage := range d.comparison.contenders[i].plan.Stages {
			row.Devices = append(row.Devices, stage.Devices())
		}
		doc.Comparison = append(doc.Comparison, row)
	}
	self := d.comparison.contenders[0]
	for i, s := range d.engine.Stats() {
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
	if p.err != nil {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	rows(t)
	p.err = t.Flush()
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

// summary prints what the stages did and how fast the pipeline was.
func (p *printer) summary(doc demoDocument) {
	p.printf("\n")
	p.table(func(t io.Writer) {
		fmt.Fprintln(t, "stage\tdevice\tlayers\tmemory\tbusy")
		for i, s := range doc.Stages {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%.0f%%\n", i, s.Device, s.Layers, device.FormatSize(s.Bytes), 100*s.Busy)
		}
	})
	if len(doc.Comparison) == 0 {
		p.printf("\nEnded before anything was compared.\n")
		return
	}
	p.printf("\n")
	p.table(func(t io.Writer) {
		fmt.Fprintln(t, "the same stories through\ttokens/s")
		for i, s := range doc.Comparison {
			note := "this pipeline"
			if i > 0 {
				note = fmt.Sprintf("the pipeline is %.2f times as fast", s.Ratio)
			}
			fmt.Fprintf(t, "%s\t%8s\t%s\n", s.where, humanize.Comma(int64(s.Speed)), note)
		}
	})
	p.printf("\n")
	n := 0
	for _, s := range doc.Stories {
		n += len(s.Tokens)
	}
	wrote := fmt.Sprintf("%d stories, %s tokens", len(doc.Stories), humanize.Comma(int64(n)))
	switch {
	case doc.Same == nil:
		p.printf("%s. The texts were not compared.\n", wrote)
	case len(doc.Comparison) == 1:
		p.printf("%s, the very same each time.\n", wrote)
	case len(doc.Comparison) == 2:
		p.printf("%s: both wrote the very same texts, token for token.\n", wrote)
	default:
		p.printf("%s: all %d wrote the very same texts, token for token.\n", wrote, len(doc.Comparison))
	}
}
