package main

import (
	"fmt"
	"strings"

	"github.com/leat-dev/leat/device"
)

// Where things stand in the picture, in pixels.
const (
	pictureWidth = 1080.0
	margin       = 32.0
	padding      = 16.0 // of a stage's panel, and between the boxes of replicas
	panelWidth   = pictureWidth - 2*margin
	panelGap     = 30.0 // from panel to panel, with an arrow
	barHeight    = 26.0
	lineHeight   = 17.0
	mostBoxes    = 3 // replicas beside each other
)

var (
	embeddingInk = shotInk{"embedding", "#1f7a63", "#3aa688"}
	evenInk      = shotInk{"even", "#2f6aa8", "#4a8ad0"}
	oddInk       = shotInk{"odd", "#5a93cf", "#79aee8"}
	headInk      = shotInk{"head", "#c9761f", "#e09a4a"}
	cacheInk     = shotInk{"cache", "#bcd7f2", "#2c4a6b"}
	otherInk     = shotInk{"other", "#b7bfc8", "#59636e"}

	titleFont = font{22, true, textInk}
	plainFont = font{13, false, dimInk}
	nameFont  = font{14, true, textInk}
	totalFont = font{13, true, textInk}
	partFont  = font{12, false, dimInk}
)

// planPicture is a plan as an SVG picture: a panel a stage with a bar for what it holds,
// all to one scale of bytes, so that a block is as wide on one device as on another; a
// box a replica; and what the stages do during a round.
type planPicture struct {
	*svg
	plan  *planView
	scale float64 // pixels a byte
	y     float64 // below which nothing is drawn yet
}

// svg returns the plan as a picture.
func (v *planView) svg() string {
	title := "Placement of " + v.model
	p := &planPicture{svg: newSVG(title, v.description()), plan: v, scale: v.scale(), y: 48}
	p.text(margin, p.y, titleFont, "start", titleFont.fit(title, panelWidth))
	p.y += 4
	for _, line := range []string{v.size + ", " + v.room, v.limit, v.pace, v.estimate} {
		p.lines(line)
	}
	p.y += 18
	stages := v.byStage()
	for i, replicas := range stages {
		p.panel(replicas)
		if i+1 < len(stages) {
			p.crossing(replicas[0], stages[i+1][0])
		}
	}
	p.y += 12
	for _, line := range v.memories {
		p.lines(line)
	}
	for _, line := range v.unused {
		p.dashed(line + ".")
	}
	p.timeline()
	return p.document(pictureWidth, p.y+margin-8)
}

// byStage returns the stages, each with its replicas.
func (v *planView) byStage() (stages [][]stageView) {
	for _, s := range v.stages {
		if s.replica == 0 {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], s)
	}
	return stages
}

// description is the picture in words.
func (v *planView) description() string {
	var parts []string
	for _, s := range v.stages {
		parts = append(parts, fmt.Sprintf("%s holds %s, %s", s.Device.Name, s.Layers, device.FormatSize(s.Bytes())))
	}
	text := strings.Join(parts, "; ") + ". " + sentence(v.pace)
	for _, line := range v.unused {
		text += " " + line + "."
	}
	return text
}

// sentence is a line with a capital and a full stop.
func sentence(line string) string {
	if line == "" {
		return ""
	}
	return strings.ToUpper(line[:1]) + line[1:] + "."
}

// lines writes a text over the whole width.
func (p *planPicture) lines(text string) {
	if text == "" {
		return
	}
	for _, line := range plainFont.wrap(sentence(text), panelWidth) {
		p.y += 20
		p.text(margin, p.y, plainFont, "start", line)
	}
}

// boxWidth is what the bar of each of so many replicas may take.
func boxWidth(replicas int) float64 {
	n := float64(min(replicas, mostBoxes))
	return (panelWidth - 2*padding - (n-1)*padding) / n
}

// beyond is how far past the fullest stage a limit may be and still be drawn to
// scale: a terabyte of free memory would leave nothing to see of the model.
const beyond = 1.5

// scale returns how many pixels a byte has.
func (v *planView) scale() float64 {
	var fullest float64
	for _, s := range v.stages {
		fullest = max(fullest, float64(s.Bytes()))
	}
	fullest = max(1, fullest)
	scale := boxWidth(1) / fullest
	for _, replicas := range v.byStage() {
		widest := 1.0
		for _, s := range replicas {
			widest = max(widest, float64(s.Bytes()))
			if !s.shared {
				widest = max(widest, min(float64(s.limit), beyond*fullest))
			}
		}
		scale = min(scale, boxWidth(len(replicas))/widest)
	}
	return scale
}

// panel draws a stage.
func (p *planPicture) panel(replicas []stageView) {
	s := replicas[0]
	body := &planPicture{svg: &svg{inks: p.inks}, plan: p.plan, scale: p.scale, y: p.y}
	left, inner := margin+padding, panelWidth-2*padding
	head := s.devices
	if len(replicas) > 1 {
		head = fmt.Sprintf("%d replicas that take batches in turn", len(replicas))
	}
	body.y += 24
	share := percent(s.share) + " of a round"
	if s.slowest && p.plan.count > 1 {
		share += ", the slowest stage"
	}
	body.text(left+inner, body.y, totalFont, "end", share)
	body.text(left, body.y, nameFont, "start", nameFont.fit(head, inner-totalFont.width(share)-20))
	for _, line := range plainFont.wrap(s.Layers, inner) {
		body.y += lineHeight + 1
		body.text(left, body.y, plainFont, "start", line)
	}
	body.y += 12
	for len(replicas) > 0 {
		row := replicas[:min(mostBoxes, len(replicas))]
		replicas = replicas[len(row):]
		top, lowest := body.y, body.y
		for i, s := range row {
			width := boxWidth(len(row))
			if s.replica >= mostBoxes || len(replicas) > 0 {
				width = boxWidth(mostBoxes)
			}
			body.y = top
			body.box(s, left+float64(i)*(width+padding), width, s.devices != s.Device.Name)
			lowest = max(lowest, body.y)
		}
		body.y = lowest + 12
	}
	p.rect(margin, p.y, panelWidth, body.y-p.y, 8, panelInk, "")
	p.WriteString(body.String())
	p.y = body.y
}

// box draws what one replica holds: for each entry its weights and its keys and values,
// then the rest, and below that what each colour is and takes.
func (p *planPicture) box(s stageView, left, width float64, named bool) {
	total := device.FormatSize(s.Bytes())
	if part, known := s.full(); known && s.shared {
		total += ", " + percent(part) + " of shared memory"
	} else if known {
		total = outOf(s.Bytes(), s.limit, " / ") + ", " + percent(part) + " full"
	} else {
		total += ", no limit"
	}
	if named {
		p.y += 14
		p.text(left, p.y, nameFont, "start", nameFont.fit(s.Device.Name, width))
		p.y += 8
	}
	p.outline(s, left, width)
	x := left
	part := func(bytes int64, i shotInk, hint string) {
		if w := float64(bytes) * p.scale; w > 0 {
			p.rect(x, p.y, w, barHeight, 0, i, hint+", "+device.FormatSize(bytes))
			x += w
		}
	}
	for i, e := range s.Entries {
		part(e.Weights, inkOf(s, i), e.Name+": weights")
		part(e.State, cacheInk, e.Name+": kv cache")
	}
	part(s.Overhead, otherInk, "other")
	p.y += barHeight + lineHeight
	p.text(left, p.y, totalFont, "start", totalFont.fit(total, width))
	p.legend(s, left, width)
}

// inkOf returns the colour of a stage's entry.
func inkOf(s stageView, i int) shotInk {
	name := s.Entries[i].Name
	if n, isBlock := blockNumber(name); isBlock {
		return []shotInk{evenInk, oddInk}[n%2]
	}
	if i == 0 && s.From == 0 {
		return embeddingInk
	}
	return headInk
}

// swatch is a colour, or two, with what it stands for.
type swatch struct {
	inks []shotInk
	text string
}

// swatches returns what the parts of a stage's bar are, and their bytes: neighbouring
// blocks are one.
func (s stageView) swatches() (all []swatch) {
	size := device.FormatSize
	for i := 0; i < len(s.Entries); {
		n, isBlock := blockNumber(s.Entries[i].Name)
		last, bytes := n, s.Entries[i].Weights
		name, inks := s.Entries[i].Name, []shotInk{inkOf(s, i)}
		for i++; isBlock && i < len(s.Entries); i++ {
			next, also := blockNumber(s.Entries[i].Name)
			if !also || next != last+1 {
				break
			}
			last, bytes = next, bytes+s.Entries[i].Weights
			name, inks = fmt.Sprintf("blocks %d-%d", n, last), []shotInk{evenInk, oddInk}
		}
		all = append(all, swatch{inks, name + " " + size(bytes)})
	}
	if s.State > 0 {
		all = append(all, swatch{[]shotInk{cacheInk}, "kv cache " + size(s.State)})
	}
	if s.Overhead > 0 {
		all = append(all, swatch{[]shotInk{otherInk}, "activations and workspace " + size(s.Overhead)})
	}
	return all
}

// legend writes the swatches of a stage, over as many lines as they take.
func (p *planPicture) legend(s stageView, left, width float64) {
	const box, gap = 10.0, 18.0
	x := left
	p.y += lineHeight
	for _, w := range s.swatches() {
		text := partFont.fit(w.text, width-box-6)
		if takes := box + 6 + partFont.width(text); x > left && x+takes > left+width {
			x = left
			p.y += lineHeight
		}
		for i, ink := range w.inks {
			each := box / float64(len(w.inks))
			p.rect(x+float64(i)*each, p.y-9, each, box, 0, ink, "")
		}
		p.text(x+box+6, p.y, partFont, "start", text)
		x += box + 6 + partFont.width(text) + gap
	}
}

// outline is what a stage may take, broken off where that is past its box.
func (p *planPicture) outline(s stageView, left, most float64) {
	if s.limit <= 0 || s.shared {
		return
	}
	hint := "limit " + device.FormatSize(s.limit)
	width := float64(s.limit) * p.scale
	x, y := number(left), number(p.y)
	if width <= most+0.5 {
		p.line(fmt.Sprintf("M%s %sh%sv%sh-%sz", x, y, number(width), number(barHeight), number(width)), lineInk, 1, false, hint)
		return
	}
	right, step := number(left+most), number(barHeight/4)
	p.line(fmt.Sprintf("M%s %sH%sV%sH%s", right, y, x, number(p.y+barHeight), right), lineInk, 1, false, hint)
	p.line(fmt.Sprintf("M%s %sl4 %sl-8 %sl8 %sl-4 %s", right, y, step, step, step, step), lineInk, 1, false, hint)
}

// crossing draws the way from one stage to the next.
func (p *planPicture) crossing(from, to stageView) {
	x, top, bottom := number(margin+padding+8), p.y+3, p.y+panelGap-3
	hint, text := "activations stay on "+from.devices, "on the same device"
	if from.devices != to.devices {
		hint = fmt.Sprintf("activations go from %s to %s", from.devices, to.devices)
		text = ""
	}
	p.line(fmt.Sprintf("M%s %sV%s", x, number(top), number(bottom-7)), dimInk, 1.5, from.devices == to.devices, hint)
	p.shape(fmt.Sprintf("M%s %sl-4.5 -8h9z", x, number(bottom)), dimInk)
	if text != "" {
		p.text(margin+padding+22, p.y+panelGap/2+4, partFont, "start", text)
	}
	p.y += panelGap
}

// dashed writes a text in a dashed frame: a device that has no stage.
func (p *planPicture) dashed(text string) {
	lines := plainFont.wrap(text, panelWidth-2*padding)
	p.y += 12
	height := float64(len(lines))*lineHeight + 14
	p.line(fmt.Sprintf("M%s %sh%sv%sh-%sz", number(margin), number(p.y), number(panelWidth), number(height), number(panelWidth)), lineInk, 1, true, "")
	for i, line := range lines {
		p.text(margin+padding, p.y+float64(i+1)*lineHeight+2, plainFont, "start", line)
	}
	p.y += height
}
