package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/leat-dev/leat/device"
)

// Where things stand in the picture, in pixels.
const (
	pictureWidth = 1080.0
	margin       = 32.0
	gutter       = margin + 8 // of the arrows
	nameLeft     = margin + 24
	barLeft      = 272.0
	bytesWidth   = 560.0
	numbersLeft  = barLeft + bytesWidth + 20
	barHeight    = 28.0
	numbersDown  = barHeight + 13 // from a bar to the names of its entries
	timeDown     = barHeight + 21 // and to the bar of the stage's time
	timeHeight   = 6.0
	pitch        = 84.0 // from stage to stage
)

// Colours that differ in lightness too, for printers without colours.
const (
	ink        = "#1f2933"
	pale       = "#52606d"
	rule       = "#9aa5b1"
	embedding  = "#1f7a63"
	evenBlock  = "#2f6aa8"
	oddBlock   = "#5a93cf"
	outputHead = "#d9822b"
	kvCache    = "#bcd7f2"
	otherBytes = "#c3c9d0"
	timeBar    = "#7b8794"
	slowestBar = "#c0392b"
)

var (
	titleFont = font{22, true, ink}
	plainFont = font{13, false, pale}
	nameFont  = font{14, true, ink}
	layerFont = font{11, false, pale}
	entryFont = font{10, false, pale}
	totalFont = font{13, true, ink}
)

// svg is the plan as a picture: a bar a stage, all to one scale of bytes, so that
// a block is as wide on one device as on another.
func (v *planView) svg() string {
	title := "Placement of " + v.model
	s := newSVG(title, v.description())
	y := 48.0
	s.text(margin, y, titleFont, "start", titleFont.fit(title, pictureWidth-2*margin))
	for _, line := range []string{v.size + ", " + v.room, v.pace, v.estimate} {
		if line != "" {
			y += 20
			s.text(margin, y, plainFont, "start", plainFont.fit(sentence(line), pictureWidth-2*margin))
		}
	}
	y += 34
	scale := v.scale()
	for i := range v.stages {
		v.drawStage(s, i, y, scale)
		y += pitch
	}
	for _, m := range v.memories {
		s.text(margin, y, plainFont, "start", sentence(m))
		y += 20
	}
	y = v.legend(s, y+8)
	return s.document(pictureWidth, y+margin-8)
}

// description is the picture in words.
func (v *planView) description() string {
	var parts []string
	for _, s := range v.stages {
		parts = append(parts, fmt.Sprintf("%s holds %s, %s", s.Device.Name, s.Layers, device.FormatSize(s.Bytes())))
	}
	return strings.Join(parts, "; ") + ". " + sentence(v.pace)
}

// sentence is a line with a capital and a full stop.
func sentence(line string) string {
	if line == "" {
		return ""
	}
	return strings.ToUpper(line[:1]) + line[1:] + "."
}

// beyond is how far past the fullest stage a limit may be and still be drawn to
// scale: a terabyte of free memory would leave nothing to see of the model.
const beyond = 1.5

// scale is how many pixels a byte has.
func (v *planView) scale() float64 {
	var fullest, widest float64
	for _, s := range v.stages {
		fullest = max(fullest, float64(s.Bytes()))
	}
	widest = fullest
	for _, s := range v.stages {
		if !s.shared {
			widest = max(widest, min(float64(s.limit), beyond*fullest))
		}
	}
	return bytesWidth / max(1, widest)
}

func (v *planView) drawStage(s *svg, i int, y, scale float64) {
	stage := v.stages[i]
	room := barLeft - nameLeft - 28
	s.text(nameLeft, y+13, nameFont, "start", nameFont.fit(stage.name(), room))
	for l, line := range layerFont.wrap(stage.Layers, room) {
		s.text(nameLeft, y+28+float64(14*l), layerFont, "start", line)
	}
	if i+1 < len(v.stages) && v.stages[i+1].devices != stage.devices {
		arrowDown(s, y+38, y+pitch-4, fmt.Sprintf("activations go from %s to %s", stage.devices, v.stages[i+1].devices))
	}
	outline(s, stage, y, scale)
	fill(s, stage, y, scale)

	total, below := device.FormatSize(stage.Bytes()), "no limit"
	if part, known := stage.full(); known && stage.shared {
		below = percent(part) + " of shared memory"
	} else if known {
		total, below = outOf(stage.Bytes(), stage.limit, " / "), percent(part)+" full"
	}
	s.text(numbersLeft, y+12, totalFont, "start", total)
	s.text(numbersLeft, y+27, layerFont, "start", below)

	colour := timeBar
	if stage.slowest {
		colour = slowestBar
	}
	share := percent(stage.share) + " of a round"
	s.rect(barLeft, y+timeDown, bytesWidth*stage.pace, timeHeight, colour, share)
	s.text(numbersLeft, y+timeDown+timeHeight+1, layerFont, "start", share)
}

// arrowDown is a crossing.
func arrowDown(s *svg, from, to float64, hint string) {
	s.line(fmt.Sprintf("M%s %sV%s", number(gutter), number(from), number(to-6)), pale, 1.5, hint)
	s.shape(fmt.Sprintf("M%s %sl-4.5 -8h9z", number(gutter), number(to)), pale)
}

// outline is what a stage may take, broken off where that is past the picture.
func outline(s *svg, stage stageView, y, scale float64) {
	if stage.limit <= 0 || stage.shared {
		return
	}
	hint := "limit " + device.FormatSize(stage.limit)
	width := float64(stage.limit) * scale
	if width <= bytesWidth+0.5 {
		s.line(fmt.Sprintf("M%s %sh%sv%sh-%sz", number(barLeft), number(y), number(width), number(barHeight), number(width)), rule, 1, hint)
		return
	}
	s.line(fmt.Sprintf("M%s %sH%sV%sH%s", number(barLeft+bytesWidth), number(y), number(barLeft), number(y+barHeight), number(barLeft+bytesWidth)), rule, 1, hint)
	step := number(barHeight / 4)
	s.line(fmt.Sprintf("M%s %sl4 %sl-8 %sl8 %sl-4 %s", number(barLeft+bytesWidth), number(y), step, step, step, step), rule, 1, hint)
}

// fill is what a stage holds: for each entry its weights and its keys and
// values, then the rest; and under it the names that have room.
func fill(s *svg, stage stageView, y, scale float64) {
	x := barLeft
	part := func(bytes int64, colour, hint string) {
		if width := float64(bytes) * scale; width > 0 {
			s.rect(x, y, width, barHeight, colour, hint+", "+device.FormatSize(bytes))
			x += width
		}
	}
	var marks []mark
	for i, e := range stage.Entries {
		m := mark{name: e.Name, from: x}
		colour := outputHead
		if n, isBlock := blockNumber(e.Name); isBlock {
			m.name, m.short, m.block = strconv.Itoa(n), strconv.Itoa(n), true
			colour = []string{evenBlock, oddBlock}[n%2]
		} else if i == 0 && stage.From == 0 {
			m.short, colour = "emb", embedding
		} else {
			m.short = "head"
		}
		part(e.Weights, colour, e.Name+": weights")
		part(e.State, kvCache, e.Name+": kv cache")
		m.to = x
		marks = append(marks, m)
	}
	other := mark{name: "other", short: "other", from: x}
	part(stage.Overhead, otherBytes, "other")
	other.to = x
	for _, l := range labels(append(marks, other), entryFont, barLeft, barLeft+bytesWidth) {
		s.text(l.x, y+numbersDown, entryFont, "middle", l.text)
	}
}

// legend says what the colours are, and returns where it ends.
func (v *planView) legend(s *svg, y float64) float64 {
	x := margin
	item := func(text string, symbol func(x float64) float64) {
		const symbolWidth = 26
		width := symbolWidth + layerFont.width(text) + 12
		if x+width > pictureWidth-margin {
			x, y = margin, y+20
		}
		end := symbol(x)
		s.text(end+6, y+9, layerFont, "start", text)
		x += width
	}
	box := func(colours ...string) func(float64) float64 {
		return func(x float64) float64 {
			for _, c := range colours {
				s.rect(x, y, 20/float64(len(colours)), 10, c, "")
				x += 20 / float64(len(colours))
			}
			return x
		}
	}
	s.line(fmt.Sprintf("M%s %sH%s", number(margin), number(y), number(pictureWidth-margin)), rule, 0.5, "")
	y += 16
	item("embedding", box(embedding))
	item("blocks", box(evenBlock, oddBlock))
	item("output head", box(outputHead))
	item("kv cache", box(kvCache))
	item("other: activations, workspace", box(otherBytes))
	item("free", func(x float64) float64 {
		s.line(fmt.Sprintf("M%s %sh20v10h-20z", number(x), number(y)), rule, 1, "")
		return x + 20
	})
	item("time of a batch", func(x float64) float64 { s.rect(x, y+2, 20, timeHeight, timeBar, ""); return x + 20 })
	item("the slowest", func(x float64) float64 { s.rect(x, y+2, 20, timeHeight, slowestBar, ""); return x + 20 })
	return y + 12
}

// blockNumber reads the name of a block, "block 3".
func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "block ")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}
