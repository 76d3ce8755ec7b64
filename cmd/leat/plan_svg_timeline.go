package main

import (
	"strconv"
	"strings"
)

const (
	rowHeight = 24.0
	rowGap    = 5.0
)

// timeline draws a round: a row a replica, a box for its work on a batch.
func (p *planPicture) timeline() {
	t := p.plan.round
	if len(t.rows) == 0 {
		return
	}
	p.y += 36
	p.text(margin, p.y, nameFont, "start", "One round")
	p.lines(strings.TrimSuffix(t.title(), ", · waits"))
	left, right := 0.0, nameFont.width("100% busy")
	for _, name := range p.plan.names() {
		left = max(left, nameFont.width(name))
	}
	left = min(left, panelWidth/4)
	x, width := margin+left+16, panelWidth-left-right-32
	p.y += 14
	for i, row := range t.rows {
		p.text(margin, p.y+rowHeight/2+5, nameFont, "start", nameFont.fit(p.plan.stages[i].name(), left))
		p.rect(x, p.y, width, rowHeight, 3, panelInk, p.plan.stages[i].Device.Name+" waits")
		for _, s := range row.stays {
			p.stay(s, x, width)
		}
		p.text(x+width+16, p.y+rowHeight/2+5, plainFont, "start", percent(row.busy)+" busy")
		p.y += rowHeight + rowGap
	}
	p.y += 14
	p.text(x, p.y, partFont, "start", "time →")
	p.text(x+width, p.y, partFont, "end", "batch 1 is through")
}

// stay draws the work on one batch in a row that begins at x. A number that has no room
// in its box is left to the hint and the colour.
func (p *planPicture) stay(s stay, x, width float64) {
	from, to := x+s.from*width, x+s.to*width
	name := strconv.Itoa(s.batch + 1)
	colour := batchColour(uint64(s.batch))
	ink := shotInk{"batch" + strconv.Itoa(s.batch%len(batchColours)), colour, colour}
	p.rect(from, p.y, max(0.5, to-from-1), rowHeight, 3, ink, "batch "+name)
	f := font{12, true, shotInk{"number", "#ffffff", "#ffffff"}}
	if takes := f.width(name); takes+4 <= to-from {
		p.text((from+to)/2, p.y+rowHeight/2+4, f, "middle", name)
	}
}

// blockNumber reads the name of a block, "block 3".
func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "block ")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}
