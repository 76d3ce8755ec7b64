package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/leat-dev/leat/device"
)

// bar is a progress line on a terminal. It is erased at the end. Nothing is shown
// before patience has passed, nor if the writer is not a terminal.
type bar struct {
	w       io.Writer // nil: not a terminal
	what    string
	patient time.Time // nothing is shown before it
	shown   bool
}

const (
	patience = 500 * time.Millisecond
	interval = 50 * time.Millisecond // between two pictures
	barWidth = 24
)

func newBar(w io.Writer, what string) *bar {
	b := &bar{what: what, patient: time.Now().Add(patience)}
	if isTerminal(w) && os.Getenv("TERM") != "dumb" {
		b.w = w
	}
	return b
}

// bytes shows that n of total bytes have been processed.
func (b *bar) bytes(n, total int64) {
	if !b.due() {
		return
	}
	share := 1.0
	if total > 0 {
		share = float64(n) / float64(total)
	}
	b.draw(fmt.Sprintf("%s %s%s of %s", b.what, b.filled(share), device.FormatSize(n), device.FormatSize(total)))
}

// filled returns a bar and a space, or "" where the window has no room for them.
func (b *bar) filled(share float64) string {
	if width := windowWidth(b.w); width > 0 && width < 3*barWidth {
		return ""
	}
	return filled(share) + " "
}

// filled returns a bar of which a fraction, from 0 to 1, is full.
func filled(share float64) string {
	full := int(share * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// say shows a line of text, if it is time for the next picture.
func (b *bar) say(text string) {
	if b.due() {
		b.draw(b.what + " " + text)
	}
}

// due reports whether it is time for the next picture.
func (b *bar) due() bool {
	now := time.Now()
	if b.w == nil || now.Before(b.patient) {
		return false
	}
	b.patient = now.Add(interval)
	return true
}

const eraseLine = "\r\x1b[K"

func (b *bar) draw(line string) {
	if width := windowWidth(b.w); width > 0 {
		line = ansi.Truncate(line, width-1, "…") // a longer one would go on in the next line, and stay there
	}
	fmt.Fprint(b.w, eraseLine, line)
	b.shown = true
}

// clear erases the line.
func (b *bar) clear() {
	if b.shown {
		fmt.Fprint(b.w, eraseLine)
		b.shown = false
	}
}

// isTerminal reports whether w is a terminal: whether a user sees what is written to
// it, or types what is read from it.
func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
