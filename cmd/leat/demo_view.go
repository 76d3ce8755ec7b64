package main

import (
	"fmt"
	"image/color"
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/leat-dev/leat/device"
)

var (
	bold = lipgloss.NewStyle().Bold(true)
	dim  = lipgloss.NewStyle().Faint(true)

	// The terminal's own colours, so that the picture goes with its theme.
	palette = []color.Color{lipgloss.Cyan, lipgloss.Magenta, lipgloss.Yellow, lipgloss.Green, lipgloss.Blue}
)

// colour is that of a stage, or of a story.
func colour(i int) lipgloss.Style { return lipgloss.NewStyle().Foreground(palette[i%len(palette)]) }

const (
	narrowest = 12 // columns and lines below which only the numbers are drawn
	lowest    = 4
	leastBox  = 30 // the least of a stage's box
	boxHeight = 7
	pathLine  = 3  // of a box, from 0: where batches are drawn, and the arrow to the next
	roomy     = 20 // lines from which on there are boxes and standings
	airy      = 30 // lines from which on parts are set apart
	arrow     = "━▶"
)

// View implements tea.Model.
func (v *liveView) View() tea.View {
	view := tea.NewView(v.picture())
	view.AltScreen = true
	return view
}

// picture is as many lines as the window has, none wider than it.
func (v *liveView) picture() string {
	if v.width <= 0 || v.height <= 0 {
		return ""
	}
	var lines []string
	if v.width < narrowest || v.height < lowest {
		lines = []string{v.counts()}
	} else {
		gap := min(1, v.height/airy) // lines between parts
		parts := [][]string{{v.header()}, v.stages()}
		if v.height >= roomy {
			parts[1] = append(parts[1], dim.Render(v.legend()))
		}
		below := [][]string{{v.footer()}}
		if v.height >= roomy {
			below = append([][]string{v.standings()}, below...)
		}
		room := v.height
		for _, p := range slices.Concat(parts, below) {
			room -= len(p) + gap
		}
		if room > 0 {
			parts = append(parts, v.stories(room))
		}
		for i, p := range slices.Concat(parts, below) {
			if i > 0 && gap > 0 {
				lines = append(lines, "")
			}
			lines = append(lines, p...)
		}
	}
	lines = lines[:min(len(lines), v.height)]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], v.width, "")
	}
	return strings.Join(lines, "\n")
}

// sides puts one text at the left and one at the right, if both fit.
func sides(left, right string, width int) string {
	space := width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if space < 1 {
		return left
	}
	return left + strings.Repeat(" ", space) + right
}

func (v *liveView) header() string {
	title := bold.Render("leat demo")
	for _, more := range []string{
		fmt.Sprintf("  one model in %s, %d stories at once", counted(len(v.loads), "stage"), len(openings)),
		fmt.Sprintf("  %s", counted(len(v.loads), "stage")),
		"",
	} {
		if line := title + dim.Render(more); ansi.StringWidth(line)+2+ansi.StringWidth(v.counts()) <= v.width {
			return sides(line, v.counts(), v.width)
		}
	}
	return v.counts()
}

// counts is what the pipeline has done.
func (v *liveView) counts() string {
	if v.now.rounds == 0 {
		return "round 1"
	}
	speed := humanize.Comma(int64(v.now.speed())) + " tokens/s"
	long := fmt.Sprintf("%s · %s stories · ", counted(v.now.rounds, "round"), humanize.Comma(int64(v.now.rounds*len(openings))))
	if v.width < ansi.StringWidth(long+speed) {
		return speed
	}
	return long + bold.Render(speed)
}

// stages is what each stage holds and how busy it is: boxes where they fit,
// else lines.
func (v *liveView) stages() []string {
	if !v.boxed() {
		return v.stageLines()
	}
	n, each := len(v.loads), v.boxWidth()
	var boxes []string
	for i := range v.loads[:n-1] {
		boxes = append(boxes, v.box(i, each), strings.Repeat("\n", pathLine)+v.motion.link(i))
	}
	// The last one takes what is left, so that they end with the window.
	boxes = append(boxes, v.box(n-1, v.width-(n-1)*(each+ansi.StringWidth(arrow))))
	return strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, boxes...), "\n")
}

// boxWidth is the width of a stage's box, if all have one.
func (v *liveView) boxWidth() int {
	n := len(v.loads)
	return (v.width - (n-1)*ansi.StringWidth(arrow)) / n
}

// boxed says whether the stages are drawn as boxes.
func (v *liveView) boxed() bool { return v.boxWidth() >= leastBox && v.height >= roomy }

func (v *liveView) box(i, width int) string {
	m := v.loads[i]
	inner := width - 4
	lines := []string{
		sides(bold.Render(m.stage.Devices()), dim.Render(device.FormatSize(m.stage.Bytes())), inner),
		m.stage.Layers,
		v.motion.path(i, inner),
		colour(i).Render(trail(m.trail, inner)),
		loadBar(i, m, inner),
	}
	if v.height >= airy {
		lines = append(lines, dim.Render(m.details()))
	}
	for l := range lines {
		lines[l] = ansi.Truncate(lines[l], inner, "…")
	}
	border := lipgloss.NewStyle().Border(lipgloss.RoundedBorder()).BorderForeground(palette[i%len(palette)])
	return border.Padding(0, 1).Width(width).Render(strings.Join(lines, "\n"))
}

// stageLines is a line a stage, of which there may be too many for the window.
func (v *liveView) stageLines() []string {
	most := max(1, v.height/3)
	shown := v.loads
	if len(shown) > most {
		shown = shown[:most-1]
	}
	names, layers, sizes := 0, 0, 0
	for _, m := range shown {
		names = max(names, len(m.stage.Devices()))
		layers = max(layers, len(m.stage.Layers))
		sizes = max(sizes, len(device.FormatSize(m.stage.Bytes())))
	}
	var lines []string
	for i, m := range shown {
		text := bold.Render(pad(m.stage.Devices(), names))
		for _, more := range []struct {
			text  string
			width int
		}{{m.stage.Layers, layers}, {device.FormatSize(m.stage.Bytes()), sizes}} {
			if ansi.StringWidth(text)+2+more.width+2+leastPath+2+leastBar <= v.width {
				text += "  " + dim.Render(pad(more.text, more.width))
			}
		}
		switch room := v.width - ansi.StringWidth(text) - 2; {
		case room >= leastPath+2+leastBar:
			way := max(leastPath, room/3)
			text += "  " + v.motion.path(i, way) + "  " + loadBar(i, m, room-way-2)
		case room > len(" 100%"):
			text += "  " + v.motion.path(i, room-len(" 100%")) + loadNumber(m)
		}
		lines = append(lines, text)
	}
	if hidden := len(v.loads) - len(shown); hidden > 0 {
		rest := ""
		for i, m := range v.loads[len(shown):] {
			rest += colour(len(shown)+i).Render(m.stage.Devices()) + fmt.Sprintf(" %.0f%%  ", 100*m.load())
		}
		lines = append(lines, rest)
	}
	return lines
}

// details are the rows of a batch, and how much of the time the stage had none
// while others had.
func (m *stageLoad) details() string {
	s := m.stage
	return fmt.Sprintf("%.1f rows a batch · %.0f%% bubbles", float64(s.Rows)/float64(max(1, s.Batches)), 100*m.bubbles)
}

const (
	leastBar    = 16 // columns of a bar and its numbers
	leastLegend = 30
)

// loadBar is a bar of the load now, with it and the share of all time in
// numbers.
func loadBar(stage int, m stageLoad, width int) string {
	numbers := loadNumber(m)
	if width >= 2*leastBar {
		numbers += dim.Render(fmt.Sprintf(" · %.0f%% so far", 100*m.share))
	}
	return gauge(colour(stage), m.load(), width-ansi.StringWidth(numbers)) + numbers
}

func loadNumber(m stageLoad) string { return fmt.Sprintf(" %3.0f%%", 100*m.load()) }

// legend explains what is drawn of the stages, as far as there is room.
func (v *liveView) legend() string {
	if v.width < leastLegend {
		return "● a batch"
	}
	parts := []string{v.motion.legend(), "50% load now"}
	if v.boxed() {
		parts = []string{v.motion.legend(), "▂▅▇ load until now", "██░ load now"}
	}
	text := ""
	for _, p := range parts {
		if text != "" {
			p = text + " · " + p
		}
		if ansi.StringWidth(p) > v.width {
			break
		}
		text = p
	}
	return text
}

// gauge is a bar of which a part is full.
func gauge(style lipgloss.Style, part float64, width int) string {
	width = max(0, width)
	full := min(width, int(part*float64(width)+0.5))
	return style.Render(strings.Repeat("█", full)) + dim.Render(strings.Repeat("░", width-full))
}

// trail draws loads over time, the latest at the right.
func trail(loads []float64, width int) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(0, width-len(loads))))
	for _, l := range loads[max(0, len(loads)-width):] {
		b.WriteRune(levels[int(min(1, max(0, l))*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}

// standings is how fast the pipeline is beside others, as far as they are
// measured.
func (v *liveView) standings() []string {
	hows, names, fastest := 0, 0, 0.0
	for _, s := range v.now.standings {
		hows = max(hows, ansi.StringWidth(s.how))
		names = max(names, ansi.StringWidth(s.where))
		fastest = max(fastest, s.tps)
	}
	title := "the same stories"
	numbers := "tokens/s  pipeline"
	lines := []string{sides(dim.Render(title), dim.Render(numbers), v.width)}
	for i, s := range v.now.standings {
		style, speed, ratio := dim, "…", ""
		if s.tps > 0 {
			speed = humanize.Comma(int64(s.tps))
			if i > 0 {
				ratio = fmt.Sprintf("%.2f×", s.ratio)
			}
		}
		if i == 0 {
			style = colour(0)
		}
		numbers := fmt.Sprintf("  %8s  %8s", speed, ratio)
		line := pad(s.how, hows) + "  " + pad(s.where, names) + "  "
		if ansi.StringWidth(line+numbers) > v.width {
			numbers = fmt.Sprintf(" %s %s", speed, ratio)
			line = s.short
			if room := v.width - ansi.StringWidth(numbers); ansi.StringWidth(line) > room {
				line = ansi.Truncate(line, max(0, room), "…")
			}
			lines = append(lines, sides(line, numbers, v.width))
			continue
		}
		lines = append(lines, line+gauge(style, s.tps/max(fastest, 1), v.width-ansi.StringWidth(line+numbers))+numbers)
	}
	return lines
}

func (v *liveView) footer() string {
	what := fmt.Sprintf("writing round %d", v.now.rounds+1)
	if v.now.measuring {
		what = "measuring: the pipeline and the others take turns"
		if v.width < 64 {
			what = "measuring"
		}
	}
	if !v.typed {
		return dim.Render(what)
	}
	return sides(dim.Render(what), dim.Render("q ends"), v.width)
}

// stories is the stories of the first round side by side, in exactly room lines.
func (v *liveView) stories(room int) []string {
	columns := 1
	switch {
	case v.width >= 132:
		columns = 4
	case v.width >= 56:
		columns = 2
	}
	const between = 2
	width := (v.width - (columns-1)*between) / columns
	rows := len(openings) / columns
	lines := make([]string, 0, max(0, room))
	if room > 2*rows {
		lines = append(lines, dim.Render(v.caption()))
	}
	space := 0 // lines between rows of stories
	if room-len(lines) >= 5*rows {
		space = 1
	}
	room -= len(lines) + (rows-1)*space
	for r := range rows {
		// Lines that can't be shared out evenly go to the rows above.
		height := max(1, (room+rows-1-r)/rows)
		cells := make([][]string, columns)
		for c := range columns {
			cells[c] = v.story(r*columns+c, width, height)
		}
		for l := range height {
			line := ""
			for c, cell := range cells {
				if l < len(cell) {
					line = pad(line, c*(width+between)) + cell[l]
				}
			}
			lines = append(lines, line)
		}
		if r < rows-1 {
			lines = append(lines, make([]string, space)...)
		}
	}
	return lines
}

// caption says what the stories are and how fast they are drawn.
func (v *liveView) caption() string {
	if v.replay.slower > 1 {
		return fmt.Sprintf("round 1, drawn %.0f times slower than it was written", v.replay.slower)
	}
	return "round 1, as it is written"
}

// story is the end of a story in at most so many lines.
func (v *liveView) story(i, width, height int) []string {
	s := v.replay.stories[i]
	number := fmt.Sprintf("%d ", i+1)
	inner := width - len(number)
	text := shown(s.text)
	if !s.last {
		text += "▌"
	}
	var lines []string
	if height == 1 {
		if over := ansi.StringWidth(text) - inner; over > 0 {
			text = ansi.TruncateLeft(text, over+1, "…")
		}
		lines = []string{text}
	} else {
		lines = strings.Split(ansi.Wrap(text, max(1, inner), ""), "\n")
		lines = lines[max(0, len(lines)-height):]
	}
	for l, line := range lines {
		indent := strings.Repeat(" ", len(number))
		if l == 0 {
			indent = colour(i).Bold(true).Render(number)
		}
		lines[l] = indent + strings.TrimRight(line, " ")
	}
	return lines
}

// shown is a model's text on one line, without what a terminal would act on.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// pad fills a text with spaces up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}
