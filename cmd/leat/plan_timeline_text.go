package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	timelineWidth = 60 // most columns of a row
	leastTimeline = 24 // columns below which names stand above their rows
)

// title says what a timeline shows.
func (t timeline) title() string {
	batches := strconv.Itoa(t.batches) + " batches"
	if t.batches == 1 {
		batches = "1 batch"
	}
	if t.waiting > 0 {
		batches += " and " + strconv.Itoa(t.waiting) + " that wait"
	}
	return "a round of batch 1 through the full pipeline, " + batches + " in flight, · waits"
}

// draw returns the timeline in lines of a width; 0: any. A stay begins with the number
// of its batch, counted from 1.
func (t timeline) draw(names []string, width int) []string {
	if len(t.rows) == 0 {
		return nil
	}
	left := 0
	for _, name := range names {
		left = max(left, ansi.StringWidth(name))
	}
	const share = len("  100% busy")
	columns := timelineWidth
	if width > 0 {
		columns = min(columns, width-left-2-share)
	}
	above := columns < leastTimeline
	if above {
		columns = min(timelineWidth, width)
	}
	lines := within(t.title(), width)
	for i, row := range t.rows {
		busy := percent(row.busy) + " busy"
		if above {
			lines = append(lines, within(names[i]+" "+busy, width)...)
			lines = append(lines, row.draw(columns))
			continue
		}
		lines = append(lines, pad(names[i], left)+"  "+row.draw(columns)+pad("", share-len(busy))+busy)
	}
	return lines
}

// draw returns a row in so many columns.
func (r timelineRow) draw(columns int) string {
	type cell struct {
		style lipgloss.Style
		text  string
	}
	cells := slices.Repeat([]cell{{dim, "·"}}, columns)
	for _, v := range r.stays {
		from, to := int(math.Round(v.from*float64(columns))), int(math.Round(v.to*float64(columns)))
		from = min(from, columns-1)
		cells[from] = cell{colour(v.batch), batchName(v.batch)}
		for i := from + 1; i < to; i++ {
			cells[i] = cell{colour(v.batch), "━"}
		}
	}
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(c.style.Render(c.text))
	}
	return b.String()
}

// batchName is a batch's number from 1, in one column.
func batchName(batch int) string {
	const names = "123456789abcdefghijklmnopqrstuvwxyz"
	return names[batch%len(names):][:1]
}
