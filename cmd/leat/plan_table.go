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

// table is the plan in lines, coloured, and at most width columns wide unless width is
// 0: as a table where there is room for one, else as a list.
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
	lines := fitted(columns, width)
	for _, text := range slices.Concat(v.memories, v.unused) {
		lines = append(lines, within(text, width)...)
	}
	lines = append(lines, v.round.draw(v.names(), width)...)
	for _, line := range within(v.pace, width) {
		lines = append(lines, bold.Render(line))
	}
	lines = append(lines, within(v.roomAndStages(), width)...)
	if v.limit != "" {
		lines = append(lines, within(v.limit, width)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// names returns the names of the rows.
func (v *planView) names() []string {
	names := make([]string, len(v.stages))
	for i, s := range v.stages {
		names[i] = s.name()
	}
	return names
}

// within breaks a text into lines of a width, words included where they are wider; 0: one
// line.
func within(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	lines := strings.Split(ansi.Wrap(text, width, ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// records sets the columns below each other, row by row, for windows that are too
// narrow for a table. A row begins with its first cell.
func records(columns []column, width int) (lines []string) {
	for row := range columns[0].cells {
		lines = append(lines, within(columns[0].cells[row], width)...)
		for _, c := range columns[1:] {
			cell := strings.Join(strings.Fields(c.cells[row]), " ")
			if cell == "" {
				continue
			}
			for _, line := range within(dim.Render(c.title)+" "+cell, max(1, width-2)) {
				lines = append(lines, "  "+line)
			}
		}
	}
	return lines
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

// newColumns returns empty columns with these titles.
func newColumns(titles ...string) []column {
	columns := make([]column, len(titles))
	for i, title := range titles {
		columns[i].title = title
	}
	return columns
}

// addRow adds a cell to each column.
func addRow(columns []column, cells ...string) {
	for i, cell := range cells {
		columns[i].cells = append(columns[i].cells, cell)
	}
}

// fitted returns a table of at most width columns, or a list where there is no room for
// a table; 0: a table.
func fitted(columns []column, width int) []string {
	lines := layOut(columns, width)
	if width > 0 && slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > width }) {
		return records(columns, width)
	}
	return lines
}

// layOut sets columns beside each other, with their titles above.
func layOut(columns []column, width int) []string {
	const gap = 2
	all := -gap
	for _, c := range columns {
		all += c.width() + gap
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
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
			if i == len(columns)-1 {
				cell = strings.TrimRight(cell, " ")
			}
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
