package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"
)

// motion draws an excerpt in slow motion, again and again.
type motion struct {
	excerpt *excerpt // nil until there is one
	slower  float64
	at      time.Duration // of the excerpt's time
}

const (
	visitTime = 600 * time.Millisecond // that a batch is drawn in a stage
	leastPath = 10                     // columns of a path with numbered batches
)

// advance moves the batches on by a further span of time.
func (f *motion) advance(cut func() *excerpt, span time.Duration) {
	if f.excerpt == nil {
		if f.excerpt = cut(); f.excerpt == nil {
			return
		}
		f.slower = f.excerpt.slower(visitTime)
		return
	}
	if f.at += time.Duration(float64(span) / f.slower); f.at > f.excerpt.length {
		f.at %= max(1, f.excerpt.length)
	}
}

// chip is a batch as it is drawn: "[17]", or a dot where there is little room.
func chip(batch uint64, width int) string {
	if width < leastPath {
		return "●"
	}
	return fmt.Sprintf("[%d]", batch)
}

// path is the way through a stage with the batches on it, each at the part of the
// way that it has done of its work.
func (f *motion) path(stage, width int) string {
	if width <= 0 {
		return ""
	}
	var b strings.Builder
	end := 0
	if f.excerpt != nil {
		for _, v := range f.excerpt.present(stage, f.at) {
			text := chip(v.batch, width)
			part := float64(f.at-v.from) / float64(max(1, v.to-v.from))
			x := int(part * float64(width-ansi.StringWidth(text)))
			if x < end || x+ansi.StringWidth(text) > width {
				continue // two replicas at the same place: one is seen
			}
			b.WriteString(dim.Render(strings.Repeat("·", x-end)))
			b.WriteString(colour(int(v.batch)).Bold(true).Render(text))
			end = x + ansi.StringWidth(text)
		}
	}
	b.WriteString(dim.Render(strings.Repeat("·", width-end)))
	return b.String()
}

// link is what stands between a stage and the next: an arrow, on which a batch
// waits or not.
func (f *motion) link(stage int) string {
	if f.excerpt != nil {
		if waiting := f.excerpt.waiting(stage, f.at); len(waiting) > 0 {
			return colour(int(waiting[0])).Bold(true).Render("●▶")
		}
	}
	return dim.Render(arrow)
}

// legend explains the path: which batch, and how slowly it is drawn.
func (f *motion) legend() string {
	if f.excerpt == nil {
		return "[7] a batch"
	}
	text := fmt.Sprintf("[%d] a batch", f.excerpt.first)
	if f.slower > 1 {
		text += fmt.Sprintf(", %s× slower", humanize.Comma(int64(f.slower)))
	}
	return text
}

// timeline draws an excerpt in one picture, a line a stage: time goes from left to
// right, a letter is a batch, and a dot is a stage that waits.
func (e *excerpt) timeline(width int) (lines []string) {
	letters := map[uint64]byte{}
	for i, b := range e.batches() {
		letters[b] = byte('A' + i%26)
	}
	for _, line := range e.stages {
		cells := []byte(strings.Repeat(" ", width))
		for i := range cells {
			at := time.Duration((float64(i) + 0.5) / float64(width) * float64(e.length))
			for _, v := range line {
				if v.from <= at && at < v.to {
					cells[i] = letters[v.batch]
				}
			}
		}
		lines = append(lines, strings.ReplaceAll(string(cells), " ", "·"))
	}
	return lines
}
