package main

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// svg is an SVG picture as it is drawn. It stands alone: no style sheet, no
// script, no font but what every viewer has, and colours as attributes, which
// office programs read too.
type svg struct{ strings.Builder }

// font is the look of a text.
type font struct {
	size   float64
	bold   bool
	colour string
}

// newSVG begins a picture on white paper, with a title and a description for who
// can't see it.
func newSVG(title, description string) *svg {
	s := &svg{}
	s.element("title", "", title)
	s.element("desc", "", description)
	fmt.Fprintln(s, `<rect width="100%" height="100%" fill="#ffffff"/>`)
	return s
}

// document is the whole picture, of so many pixels.
func (s *svg) document(width, height float64) string {
	w, h := number(width), number(height)
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="Helvetica, Arial, sans-serif">`, w, h, w, h) + "\n" +
		s.String() + "</svg>\n"
}

// element is an element of a text.
func (s *svg) element(name, attributes, text string) {
	fmt.Fprintf(s, "<%s%s>%s</%s>\n", name, attributes, escape(text), name)
}

// rect is a filled rectangle. A viewer that can shows the hint under the pointer.
func (s *svg) rect(x, y, width, height float64, fill, hint string) {
	fmt.Fprintf(s, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"`, number(x), number(y), number(width), number(height), fill)
	s.end("rect", hint)
}

// line is a path without a fill.
func (s *svg) line(d, stroke string, width float64, hint string) {
	fmt.Fprintf(s, `<path d="%s" fill="none" stroke="%s" stroke-width="%s"`, d, stroke, number(width))
	s.end("path", hint)
}

// shape is a filled path.
func (s *svg) shape(d, fill string) { fmt.Fprintf(s, "<path d=\"%s\" fill=\"%s\"/>\n", d, fill) }

func (s *svg) end(name, hint string) {
	if hint == "" {
		fmt.Fprintln(s, "/>")
		return
	}
	fmt.Fprintf(s, "><title>%s</title></%s>\n", escape(hint), name)
}

// text stands on the line y. The anchor is start, middle or end: what x is of it.
func (s *svg) text(x, y float64, f font, anchor, text string) {
	attributes := fmt.Sprintf(` x="%s" y="%s" font-size="%s" fill="%s"`, number(x), number(y), number(f.size), f.colour)
	if f.bold {
		attributes += ` font-weight="bold"`
	}
	if anchor != "start" {
		attributes += fmt.Sprintf(` text-anchor="%s"`, anchor)
	}
	s.element("text", attributes, text)
}

// width is about what a text takes in the widest of the common fonts.
func (f font) width(text string) float64 {
	width := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("fijlrt.,:;'|()[]-/ ", r):
			width += 0.4
		case r >= 'a' && r <= 'z':
			width += 0.62
		case r < 0x2e80:
			width += 0.66
		default:
			width++ // scripts whose signs are squares
		}
	}
	if f.bold {
		width *= 1.1
	}
	return width * f.size
}

// fit shortens a text to a width.
func (f font) fit(text string, width float64) string {
	runes := []rune(text)
	for n := len(runes) - 1; n > 0 && f.width(text) > width; n-- {
		text = strings.TrimRight(string(runes[:n]), " ,") + "…"
	}
	return text
}

// wrap breaks a list of names over two lines at most.
func (f font) wrap(text string, width float64) []string {
	if f.width(text) <= width {
		return []string{text}
	}
	first := ""
	for part := range strings.SplitAfterSeq(text, ", ") {
		if f.width(strings.TrimRight(first+part, " ")) > width {
			break
		}
		first += part
	}
	if first == "" {
		return []string{f.fit(text, width)}
	}
	return []string{strings.TrimRight(first, " "), f.fit(text[len(first):], width)}
}

// number is a coordinate: two decimals are finer than any eye.
func number(x float64) string {
	text := strconv.FormatFloat(x, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// escape makes a text safe inside XML. What XML can't hold at all becomes U+FFFD.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
