package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/device"
)

// draw writes a picture of what happened to a file.
func (d *demo) draw(ctx context.Context, path string) error {
	e := d.record.cut()
	if e == nil || !d.comparison.done {
		return errors.New("--svg: the demo ended before there was enough to draw")
	}
	out, err := files.Create(ctx, path, nil)
	if err != nil {
		return err
	}
	defer out.Discard()
	_, _ = io.WriteString(out, newDemoPicture(d.document(), e).document()) // Commit tells the error
	return out.Commit()
}

// demoPicture is the demo as an SVG picture: the stages with batches that move
// from one to the next, the same batches on a time axis, and the comparison. It
// stands alone, and is as legible on a dark page as on a light one: it follows the
// viewer's colour scheme, and draws its own background. Where nothing moves,
// because the viewer can't or its user doesn't want it, it shows one moment.
type demoPicture struct {
	strings.Builder
	styles  strings.Builder
	doc     demoDocument
	excerpt *excerpt
	y       float64 // below which nothing is drawn yet
}

const (
	shotWidth  = 880.0
	shotMargin = 28.0
	shotInner  = shotWidth - 2*shotMargin
	shotVisit  = 1200 * time.Millisecond // that a batch is seen in a stage
	chipWidth  = 30.0
	chipHeight = 20.0
	linkWidth  = 34.0 // between two stages
)

// shotInk is a colour on a light page and on a dark one.
type shotInk struct{ class, light, dark string }

var (
	paperInk = shotInk{"paper", "#ffffff", "#0d1117"}
	panelInk = shotInk{"panel", "#f3f5f8", "#1a212b"}
	textInk  = shotInk{"text", "#1f2328", "#f0f6fc"}
	dimInk   = shotInk{"dim", "#59636e", "#9da7b3"}
	lineInk  = shotInk{"line", "#c3cad2", "#4a535f"}

	// White on these, and these on both backgrounds, have enough contrast.
	batchColours = []string{"#0a6bc2", "#8250df", "#b3367f", "#b35309", "#1a7f37"}
)

func batchColour(batch uint64) string { return batchColours[batch%uint64(len(batchColours))] }

func newDemoPicture(doc demoDocument, e *excerpt) *demoPicture {
	p := &demoPicture{doc: doc, excerpt: e}
	p.title()
	p.pipeline()
	p.timeline()
	p.comparison()
	return p
}

// document is the whole picture.
func (p *demoPicture) document() string {
	w, h := number(shotWidth), number(p.y+shotMargin-8)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>leat demo</title>\n<desc>%s</desc>\n", escape(p.description()))
	b.WriteString("<style>\n@media (prefers-color-scheme: dark) {\n")
	for _, i := range []shotInk{paperInk, panelInk, textInk, dimInk} {
		fmt.Fprintf(&b, ".%s { fill: %s }\n", i.class, i.dark)
	}
	fmt.Fprintf(&b, ".%s { stroke: %s }\n}\n", lineInk.class, lineInk.dark)
	b.WriteString(".chip { animation-iteration-count: infinite; animation-timing-function: linear }\n")
	b.WriteString("@media (prefers-reduced-motion: reduce) { .chip { animation: none !important } }\n")
	b.WriteString(p.styles.String())
	b.WriteString("</style>\n")
	fmt.Fprintf(&b, `<rect class="%s" width="%s" height="%s" rx="10" fill="%s"/>`+"\n", paperInk.class, w, h, paperInk.light)
	b.WriteString(p.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// description is the picture for those who can't see it.
func (p *demoPicture) description() string {
	return fmt.Sprintf("A model in %s, through which %d stories are written at once. %s %s",
		counted(len(p.doc.Stages), "stage"), len(p.doc.Stories), p.doc.headline(), p.doc.contrast())
}

func (p *demoPicture) text(x, y, size float64, i shotInk, weight, anchor, text string) {
	fmt.Fprintf(p, `<text class="%s" x="%s" y="%s" font-size="%s" fill="%s"`, i.class, number(x), number(y), number(size), i.light)
	if weight != "" {
		fmt.Fprintf(p, ` font-weight="%s"`, weight)
	}
	if anchor != "" {
		fmt.Fprintf(p, ` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(p, ">%s</text>\n", escape(text))
}

func (p *demoPicture) rect(x, y, w, h, radius float64, i shotInk) {
	fmt.Fprintf(p, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s" fill="%s"/>`+"\n",
		i.class, number(x), number(y), number(w), number(h), number(radius), i.light)
}

func (p *demoPicture) path(d string) {
	fmt.Fprintf(p, `<path class="%s" d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", lineInk.class, d, lineInk.light)
}

func (p *demoPicture) title() {
	p.text(shotMargin, 46, 22, textInk, "600", "", "leat demo")
	p.text(shotMargin+font{size: 22, bold: true}.width("leat demo")+8, 46, 15, dimInk, "", "", fmt.Sprintf("one model in %s, %d stories written at once", counted(len(p.doc.Stages), "stage"), len(p.doc.Stories)))
	p.y = 66
}

// boxes is where the stages' boxes begin, and their width.
func (p *demoPicture) boxes() (left []float64, width float64) {
	n := float64(len(p.doc.Stages))
	width = (shotInner - (n-1)*linkWidth) / n
	for i := range p.doc.Stages {
		left = append(left, shotMargin+float64(i)*(width+linkWidth))
	}
	return left, width
}

// pipeline draws the stages side by side and the batches on their way.
func (p *demoPicture) pipeline() {
	const height, padding = 104.0, 12.0
	left, width := p.boxes()
	top := p.y
	way := top + 70 // where the batches are
	small := font{size: 12}
	for i, s := range p.doc.Stages {
		x, inner := left[i], width-2*padding
		p.rect(x, top, width, height, 8, panelInk)
		name := font{size: 14, bold: true}
		p.text(x+padding, top+24, 14, textInk, "600", "", name.fit(s.Device, inner))
		if memory := device.FormatSize(s.Bytes); name.width(s.Device)+small.width(memory)+10 < inner {
			p.text(x+width-padding, top+24, 12, dimInk, "", "end", memory)
		}
		p.text(x+padding, top+43, 12, dimInk, "", "", small.fit(s.Layers, inner))
		p.path(fmt.Sprintf("M%s %sH%s", number(x+padding), number(way), number(x+width-padding)))
		busy := fmt.Sprintf("busy %.0f%%", 100*s.Busy)
		p.text(x+padding, top+height-8, 11, dimInk, "", "", busy)
		if i > 0 {
			p.path(fmt.Sprintf("M%s %sh%s", number(x-linkWidth+5), number(way), number(linkWidth-12)))
			fmt.Fprintf(p, `<path class="%s" d="M%s %sl7 4.5l-7 4.5z" fill="%s"/>`+"\n", dimInk.class, number(x-9), number(way-4.5), dimInk.light)
		}
	}
	slower := p.excerpt.slower(shotVisit)
	still := p.still()
	for _, b := range p.excerpt.batches() {
		p.chip(b, left, width, way, padding, slower, still)
	}
	p.y = top + height + 22
	p.text(shotMargin, p.y, 12, dimInk, "", "", fmt.Sprintf("A numbered box is a batch, with a row for each story in it. It is drawn %s times slower than it went.", humanize.Comma(int64(slower))))
	p.y += 22
}

// still is the moment that is shown where nothing moves: the one near the middle
// at which most stages work.
func (p *demoPicture) still() time.Duration {
	best, most := p.excerpt.length/2, -1
	for i := range 100 {
		at := p.excerpt.length * time.Duration(30+i*40/100) / 100
		working := 0
		for s := range p.excerpt.stages {
			working += min(1, len(p.excerpt.present(s, at)))
		}
		if working > most {
			best, most = at, working
		}
	}
	return best
}

// chip draws a batch and how it moves: through each stage in the time that this
// took, and from a stage to the next when that received it.
func (p *demoPicture) chip(batch uint64, left []float64, width, y, padding, slower float64, still time.Duration) {
	length := p.excerpt.length
	percent := func(t time.Duration) string {
		return number(100*math.Min(1, math.Max(0, float64(t)/float64(length)))) + "%"
	}
	position := func(x float64) string { return fmt.Sprintf("translate(%spx, %spx)", number(x), number(y)) }
	name := fmt.Sprintf("batch%d", batch)
	at, shown := 0.0, 0
	visits := p.excerpt.of(batch)
	s := &p.styles
	fmt.Fprintf(s, "@keyframes %s {\n", name)
	begin := left[visits[0].stage] + padding
	fmt.Fprintf(s, "0%%, %s { transform: %s; opacity: 0 }\n", percent(visits[0].from), position(begin))
	for i, v := range visits {
		from, to := left[v.stage]+padding, left[v.stage]+width-padding-chipWidth
		fmt.Fprintf(s, "%s { transform: %s; opacity: 1 }\n", percent(v.from+length/2000), position(from))
		fmt.Fprintf(s, "%s { transform: %s; opacity: 1 }\n", percent(v.to), position(to))
		until := v.to
		if i+1 < len(visits) {
			until = visits[i+1].from
		}
		if v.from <= still && still < until || i == 0 {
			part := math.Min(1, math.Max(0, float64(still-v.from)/float64(max(1, v.to-v.from))))
			at = from + part*(to-from)
		}
		if v.from <= still && still < until {
			shown = 1
		}
	}
	last := visits[len(visits)-1]
	fmt.Fprintf(s, "%s, 100%% { transform: %s; opacity: 0 }\n}\n", percent(last.to+length/2000), position(left[last.stage]+width-padding-chipWidth))
	seconds := number(length.Seconds() * slower)
	fmt.Fprintf(p, `<g class="chip" opacity="%d" transform="translate(%s %s)" style="animation-name: %s; animation-duration: %ss">`, shown, number(at), number(y), name, seconds)
	fmt.Fprintf(p, `<rect y="%s" width="%s" height="%s" rx="5" fill="%s"/>`, number(-chipHeight/2), number(chipWidth), number(chipHeight), batchColour(batch))
	fmt.Fprintf(p, `<text x="%s" y="4" font-size="12" font-weight="600" text-anchor="middle" fill="#ffffff">%d</text></g>`+"\n", number(chipWidth/2), batch)
}

// timeline draws when each stage worked on which batch.
func (p *demoPicture) timeline() {
	const height, gap = 22.0, 5.0
	names := 0.0
	label := font{size: 12}
	for _, s := range p.doc.Stages {
		names = max(names, label.width(s.Device))
	}
	x := shotMargin + min(names, 150) + 12
	scale := (shotMargin + shotInner - x) / float64(p.excerpt.length)
	for i, s := range p.doc.Stages {
		p.text(shotMargin, p.y+height/2+4, 12, textInk, "", "", label.fit(s.Device, 150))
		p.rect(x, p.y, shotMargin+shotInner-x, height, 3, panelInk)
		for _, v := range p.excerpt.stages[i] {
			w := max(1, float64(v.to-v.from)*scale-1)
			fmt.Fprintf(p, `<rect x="%s" y="%s" width="%s" height="%s" rx="2" fill="%s"><title>batch %d: %s</title></rect>`+"\n",
				number(x+float64(v.from)*scale), number(p.y), number(w), number(height), batchColour(v.batch), v.batch, micros(v.to-v.from))
			if text := fmt.Sprint(v.batch); (font{size: 11, bold: true}).width(text) < w {
				fmt.Fprintf(p, `<text x="%s" y="%s" font-size="11" font-weight="600" text-anchor="middle" fill="#ffffff">%s</text>`+"\n",
					number(x+float64(v.from+v.to)/2*scale), number(p.y+height/2+4), text)
			}
		}
		p.y += height + gap
	}
	p.y += 14
	p.text(shotMargin, p.y, 12, dimInk, "", "", fmt.Sprintf("The same batches on a time axis of %s: every stage works on another batch at the same time.", micros(p.excerpt.length)))
	p.y += 34
}

// comparison draws how fast the pipeline is beside the others, and what all have
// in common.
func (p *demoPicture) comparison() {
	for _, line := range wrapText(p.doc.headline(), font{size: 15, bold: true}, shotInner) {
		p.text(shotMargin, p.y, 15, textInk, "600", "", line)
		p.y += 22
	}
	p.text(shotMargin, p.y, 14, textInk, "", "", p.doc.contrast())
	p.y += 18
	const height, gap, numbers = 20.0, 7.0, 306.0
	fastest, names := 0.0, 0.0
	label := font{size: 12}
	for _, s := range p.doc.Comparison {
		fastest = max(fastest, s.Speed)
		names = max(names, label.width(s.how()+", "+s.where))
	}
	names = min(names, shotInner/2-60)
	x := shotMargin + names + 12
	room := shotInner - names - 12 - numbers
	for i, s := range p.doc.Comparison {
		p.text(shotMargin, p.y+height/2+4, 12, textInk, "", "", label.fit(s.how()+", "+s.where, names))
		fill, width := "#8b949e", max(2, room*s.Speed/max(1, fastest))
		if i == 0 {
			fill = batchColours[0]
		}
		fmt.Fprintf(p, `<rect x="%s" y="%s" width="%s" height="%s" rx="3" fill="%s"/>`+"\n", number(x), number(p.y), number(width), number(height), fill)
		note := humanize.Comma(int64(s.Speed)) + " tokens/s"
		if i > 0 {
			note += ": " + s.note(i)
		}
		p.text(x+width+10, p.y+height/2+4, 12, dimInk, "", "", note)
		p.y += height + gap
	}
	if p.doc.Why == "" {
		return
	}
	p.y += 4
	for _, line := range wrapText(p.doc.Why, font{size: 12}, shotInner) {
		p.y += 16
		p.text(shotMargin, p.y-2, 12, dimInk, "", "", line)
	}
}

// wrapText breaks prose into lines of a width.
func wrapText(text string, f font, width float64) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && f.width(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
