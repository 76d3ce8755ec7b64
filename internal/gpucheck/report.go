package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// report is what the check found. It becomes a page of Markdown.
type report struct {
	title    string
	emulated bool
	took     time.Duration
	steps    int  // that were run
	partial  bool // something that must be right was not run
	wrong    []string
	skipped  []string
	sections []section
}

// section is a part of the page.
type section struct {
	title string
	lines []string // list items
	table [][]string
	note  string
}

// fail adds something that is wrong.
func (r *report) fail(what string, err error) {
	r.wrong = append(r.wrong, what+": "+err.Error())
}

// skip adds something that was not run, and why.
func (r *report) skip(what, why string, v ...any) {
	r.skipped = append(r.skipped, what+": "+fmt.Sprintf(why, v...))
}

func (r *report) add(s section) { r.sections = append(r.sections, s) }

// markdown is the page.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.title)
	if r.emulated {
		b.WriteString("**Emulated: no GPU was there, and the times say nothing of any.**\n\n")
	}
	result := "right"
	switch {
	case len(r.wrong) > 0:
		result = "WRONG"
	case r.steps == 0:
		result = "nothing was run"
	case r.partial:
		result = "NOT ALL CHECKED"
	case len(r.skipped) > 0:
		result = "right as far as it was run"
	}
	fmt.Fprintf(&b, "Result: **%s**, in %.0f s.\n", result, r.took.Seconds())
	for _, w := range r.wrong {
		first, rest, more := strings.Cut(w, "\n")
		fmt.Fprintf(&b, "\n- WRONG: %s\n", first)
		if rest = strings.TrimSpace(rest); more && rest != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", rest)
		}
	}
	if len(r.skipped) > 0 {
		b.WriteString("\nNot run:\n\n")
		for _, s := range r.skipped {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	for _, s := range r.sections {
		s.write(&b)
	}
	return b.String()
}

func (s *section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n", s.title)
	if len(s.lines) > 0 {
		b.WriteByte('\n')
	}
	for _, l := range s.lines {
		fmt.Fprintf(b, "- %s\n", l)
	}
	if len(s.table) > 1 {
		b.WriteByte('\n')
		for i, row := range s.table {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				// The first column is text, the others are numbers.
				fmt.Fprintf(b, "| --- |%s\n", strings.Repeat(" ---: |", len(row)-1))
			}
		}
	}
	if s.note != "" {
		fmt.Fprintf(b, "\n%s\n", s.note)
	}
}

// share is a part of a whole in percent; "–" where the whole isn't known.
func share(part, whole float64) string {
	if whole <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*part/whole)
}

// significant prints x with three digits.
func significant(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func micros(d time.Duration) string { return significant(float64(d) / float64(time.Microsecond)) }
func giga(x float64) string         { return significant(x / 1e9) }
func tera(x float64) string         { return significant(x / 1e12) }
