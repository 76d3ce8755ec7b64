package main

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/leat-dev/leat/internal/ceiling"
)

// report is all that was measured.
type report struct {
	CPU      string         `json:"cpu"`
	Cores    int            `json:"cores"`
	SIMD     string         `json:"simd"`
	Peer     string         `json:"peer_commit"`
	Ceilings []ceiling.Rate `json:"ceilings"`
	Cells    []cell         `json:"results"`
	Refused  []string       `json:"refused"`
}

// cell is one test of one type.
type cell struct {
	Type       string    `json:"type"`
	Layers     int       `json:"layers"`
	Test       string    `json:"test"`
	Leat       float64   `json:"leat"` // tokens a second, the rounds' median
	Peer       float64   `json:"peer"` // 0: not measured
	Ratio      float64   `json:"ratio"`
	Goal       string    `json:"goal"`
	Met        bool      `json:"met"`
	Ceiling    string    `json:"ceiling"` // by name; "": none
	Share      float64   `json:"share"`   // that Leat reaches of it
	F16        float64   `json:"of_f16"`  // Leat's speed to that of F16; 0: not measured before
	LeatRounds []float64 `json:"leat_rounds"`
	PeerRounds []float64 `json:"peer_rounds"`

	row  row
	work float64 // of one token: multiply-adds, or bytes where reading is the limit
}

// look notes what machine this is.
func (r *report) look() {
	r.CPU, r.Cores = strings.TrimSpace(cpuid.CPU.BrandName), runtime.GOMAXPROCS(0)
	if r.CPU == "" {
		r.CPU = runtime.GOARCH + " CPU"
	}
}

// add adds the cells of a row.
func (r *report) add(row row, w weights, leat, peer speeds) {
	for _, t := range tests {
		c := cell{
			Type: row.typ, Layers: row.layers, Test: t.name, Leat: leat.median(t.name), Peer: peer.median(t.name),
			LeatRounds: leat[t.name], PeerRounds: peer[t.name],
		}
		if c.Leat == 0 {
			continue
		}
		if c.Peer > 0 {
			c.Ratio = thousandths(c.Leat / c.Peer)
		}
		c.row, c.work = row, w.prefill
		switch t.name {
		case decode1:
			c.work = w.bytes
		case decode16:
			c.work = w.decode
		}
		for _, other := range r.Cells {
			if other.Type == "F16" && other.Test == c.Test && other.Layers == c.Layers {
				c.F16 = thousandths(c.Leat / other.Leat)
			}
		}
		r.Cells = append(r.Cells, c)
	}
}

// raise takes what was measured of the ceilings once more. The highest count: others on
// the same machine, which a virtual one doesn't show, only ever lower them.
func (r *report) raise(rates []ceiling.Rate) {
	if r.Ceilings == nil {
		r.Ceilings = rates
		return
	}
	for i := range r.Ceilings {
		c := &r.Ceilings[i]
		c.One, c.All = max(c.One, rates[i].One), max(c.All, rates[i].All)
	}
}

// judge compares all speeds to their goals, once the ceilings are known.
func (r *report) judge() {
	for i := range r.Cells {
		c := &r.Cells[i]
		g := c.row.goal(c.Test, r.SIMD)
		if most := r.ceiling(g.ceiling); most > 0 {
			c.Ceiling, c.Share = g.ceiling, thousandths(c.Leat*c.work/most)
		}
		c.Goal, c.Met = g.String(), g.met(*c)
	}
}

// ceiling is the rate of that name of all cores, 0 where it wasn't measured.
func (r *report) ceiling(name string) float64 {
	for _, c := range r.Ceilings {
		if c.Name == name {
			return c.All
		}
	}
	return 0
}

func thousandths(x float64) float64 { return math.Round(1000*x) / 1000 }

// markdown is the report as a page.
func (r *report) markdown() string {
	var p strings.Builder
	fmt.Fprintf(&p, "# Leat beside llama.cpp\n\n%s, %d cores", r.CPU, r.Cores)
	if r.SIMD != "" {
		fmt.Fprintf(&p, "; Leat at %s", r.SIMD)
	}
	if r.Peer != "" {
		fmt.Fprintf(&p, "; llama.cpp %s", r.Peer)
	}
	p.WriteString("\n\n## What the machine does at most\n\nThe highest of what was measured before each type and at the end. Where a speed is more than the whole of its ceiling, the machine's own speed varied in between.\n\n| name | what | unit | one core | all cores |\n| --- | --- | --- | ---: | ---: |\n")
	for _, c := range r.Ceilings {
		fmt.Fprintf(&p, "| %s | %s | G%s/s | %.1f | %.1f |\n", c.Name, c.What, c.Unit, c.One/1e9, c.All/1e9)
	}
	if len(r.Cells) > 0 {
		p.WriteString("\n## Tokens a second, medians\n\n| type | layers | test | Leat | llama.cpp | ratio | goal | met | of the ceiling |\n| --- | ---: | --- | ---: | ---: | ---: | --- | --- | ---: |\n")
	}
	for _, c := range r.Cells {
		met := "no"
		if c.Met {
			met = "yes"
		}
		share := "–"
		if c.Ceiling != "" {
			share = fmt.Sprintf("%.0f %% of %s", 100*c.Share, c.Ceiling)
		}
		fmt.Fprintf(&p, "| %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", c.Type, c.Layers, textOf(c.Test),
			number(c.Leat, 1), number(c.Peer, 1), number(c.Ratio, 2), c.Goal, met, share)
	}
	if len(r.Refused) > 0 {
		p.WriteString("\n## Not measured\n\n")
	}
	for _, note := range r.Refused {
		fmt.Fprintf(&p, "- %s\n", note)
	}
	return p.String()
}

func textOf(test string) string {
	for _, t := range tests {
		if t.name == test {
			return t.text
		}
	}
	return test
}

// number prints x with some decimals; "–" where it wasn't measured.
func number(x float64, decimals int) string {
	if x == 0 {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}
