package main

import (
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/leat-dev/leat/device"
)

// print writes the plan as a table: in colour on a terminal that wants it, and
// no wider than its window where that can be.
func (v *planView) print(w io.Writer) error {
	_, err := lipgloss.Fprint(w, v.table(windowWidth(w)))
	return err
}

// windowWidth is the columns of the terminal behind w; 0: it is none.
func windowWidth(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// column is one column of a table.
type column struct {
	title string
	cells []string
	right bool // numbers: they end at the same place
	spare bool // left out where there is no room for it, the first such column first
}

const gaugeWidth = 10

// table is the plan in lines, coloured, at most width columns wide if width
// isn't 0 and the columns that matter fit.
func (v *planView) table(width int) string {
	columns := []column{
		{title: "device"},
		{title: "layers"},
		{title: "weights", right: true},
		{title: "kv cache", right: true},
		{title: "other", right: true},
		{title: "total / budget", cells: v.budgets(), right: true},
		{title: "full", right: true, spare: true},
		{title: "round", right: true, spare: true},
	}
	size := device.FormatSize
	for _, s := range v.stages {
		full := ""
		if part, known := s.full(); known {
			full = gauge(colour(s.device), min(1, part), gaugeWidth) + pad("", 5-len(percent(part))) + percent(part)
		}
		round := percent(s.share)
		if s.slowest {
			round = bold.Render(round)
		}
		for i, cell := range []string{
			0: colour(s.device).Bold(true).Render(s.name()),
			1: s.Layers, 2: size(s.Weights), 3: size(s.State), 4: size(s.Overhead),
			6: full, 7: round,
		} {
			if i != 5 {
				columns[i].cells = append(columns[i].cells, cell)
			}
		}
	}
	lines := layOut(columns, width)
	lines = append(lines, v.memories...)
	return strings.Join(append(lines, bold.Render(v.pace), v.roomAndStages()), "\n") + "\n"
}

// budgets is the column of totals and budgets, with the slashes in one place.
// Where all have one unit, totals go without it.
func (v *planView) budgets() []string {
	totals, limits := column{right: true}, column{right: true}
	alike := true
	for _, s := range v.stages {
		total, limit := device.FormatSize(s.Bytes()), "no limit"
		switch {
		case s.shared:
			limit = "shared"
		case s.limit > 0:
			limit = device.FormatSize(s.limit)
		}
		alike = alike && unit(total) == unit(limit)
		totals.cells = append(totals.cells, total)
		limits.cells = append(limits.cells, limit)
	}
	var cells []string
	for i := range v.stages {
		if alike {
			totals.cells[i] = strings.TrimSuffix(totals.cells[i], " "+unit(totals.cells[i]))
		}
	}
	for i := range v.stages {
		cells = append(cells, totals.cell(i, totals.width())+" / "+limits.cell(i, limits.width()))
	}
	return cells
}

func (v *planView) roomAndStages() string {
	return counted(v.count, "stage") + ", " + v.room
}

// layOut sets columns beside each other, with their titles above.
func layOut(columns []column, width int) []string {
	const gap = 2
	all := -gap
	for _, c := range columns {
		all += c.width() + gap
	}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		narrower := c.spare && width > 0 && all > width
		if narrower {
			all -= c.width() + gap
		}
		return narrower
	})
	var lines []string
	for row := -1; row < len(columns[0].cells); row++ {
		line := ""
		for i, c := range columns {
			cell := c.cell(row, c.width())
			if row < 0 {
				cell = dim.Render(cell)
			}
			if i > 0 {
				line += strings.Repeat(" ", gap)
			}
			line += cell
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (c column) width() int {
	width := ansi.StringWidth(c.title)
	for _, cell := range c.cells {
		width = max(width, ansi.StringWidth(cell))
	}
	return width
}

// cell is the cell of a row, or the title for row -1, filled up to a width.
func (c column) cell(row, width int) string {
	text := c.title
	if row >= 0 {
		text = c.cells[row]
	}
	if !c.right {
		return pad(text, width)
	}
	return pad("", width-ansi.StringWidth(text)) + text
}
