package main

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// svg is an SVG picture as it is drawn. It stands alone: no script, no image, and no font
// but what every viewer has. It follows the viewer's colour scheme; a program that reads
// no style sheets, as office programs do, finds the colours of the light scheme as
// attributes.
type svg struct {
	strings.Builder
	title, description string
	inks               map[shotInk]bool // that are used
}

// font is the look of a text.
type font struct {
	size float64
	bold bool
	ink  shotInk
}

// newSVG begins a picture, with a title and a description for those who can't see it.
func newSVG(title, description string) *svg {
	return &svg{title: title, description: description, inks: map[shotInk]bool{}}
}

// document is the whole picture, of so many pixels.
func (s *svg) document(width, height float64) string {
	w, h := number(width), number(height)
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", escape(s.title), escape(s.description))
	background := s.ink(paperInk, "fill")
	b.WriteString("<style>@media (prefers-color-scheme: dark) {\n")
	inks := slices.SortedFunc(maps.Keys(s.inks), func(a, b shotInk) int { return strings.Compare(a.class, b.class) })
	for _, i := range inks {
		fmt.Fprintf(&b, ".%s { fill: %s }\n.%s-line { stroke: %s }\n", i.class, i.dark, i.class, i.dark)
	}
	b.WriteString("}</style>\n")
	fmt.Fprintf(&b, `<rect width="%s" height="%s"%s/>`+"\n", w, h, background)
	return b.String() + s.String() + "</svg>\n"
}

// ink returns the attributes that fill or stroke with a colour.
func (s *svg) ink(i shotInk, how string) string {
	s.inks[i] = true
	class := i.class
	if how == "stroke" {
		class += "-line"
	}
	return fmt.Sprintf(` class="%s" %s="%s"`, class, how, i.light)
}

// element is an element of a text.
func (s *svg) element(name, attributes, text string) {
	fmt.Fprintf(s, "<%s%s>%s</%s>\n", name, attributes, escape(text), name)
}

// rect is a filled rectangle. A viewer that can shows the hint under the pointer.
func (s *svg) rect(x, y, width, height, radius float64, i shotInk, hint string) {
	fmt.Fprintf(s, `<rect x="%s" y="%s" width="%s" height="%s"%s`, number(x), number(y), number(width), number(height), s.ink(i, "fill"))
	if radius > 0 {
		fmt.Fprintf(s, ` rx="%s"`, number(radius))
	}
	s.end("rect", hint)
}

// line is a path without a fill; dashed, if that is set.
func (s *svg) line(d string, i shotInk, width float64, dashed bool, hint string) {
	fmt.Fprintf(s, `<path d="%s" fill="none"%s stroke-width="%s"`, d, s.ink(i, "stroke"), number(width))
	if dashed {
		s.WriteString(` stroke-dasharray="4 3"`)
	}
	s.end("path", hint)
}

// shape is a filled path.
func (s *svg) shape(d string, i shotInk) {
	fmt.Fprintf(s, "<path d=\"%s\"%s/>\n", d, s.ink(i, "fill"))
}

func (s *svg) end(name, hint string) {
	if hint == "" {
		fmt.Fprintln(s, "/>")
		return
	}
	fmt.Fprintf(s, "><title>%s</title></%s>\n", escape(hint), name)
}

// text stands on the line y. The anchor is start, middle or end: what x is of it.
func (s *svg) text(x, y float64, f font, anchor, text string) {
	attributes := fmt.Sprintf(` x="%s" y="%s" font-size="%s"%s`, number(x), number(y), number(f.size), s.ink(f.ink, "fill"))
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

// wrap breaks a text at its spaces into as many lines as it takes; a word that is too wide
// is shortened.
func (f font) wrap(text string, width float64) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && f.width(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += f.fit(word, width)
	}
	return append(lines, line)
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
