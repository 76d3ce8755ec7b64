package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inGroup annotates a flag with the heading that it stands under in help.
const inGroup = "group"

// group puts the flags that are defined until the function that it returns is called
// under a heading.
func group(flags *pflag.FlagSet, heading string) func() {
	before := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	return func() {
		flags.VisitAll(func(f *pflag.Flag) {
			if !before[f.Name] {
				annotate(flags, f.Name, inGroup, heading)
			}
		})
	}
}

const (
	plainWidth  = 80 // of help that isn't for a terminal
	widestHelp  = 100
	narrowHelp  = 56 // below it a flag and what it does stand on lines of their own
	widestNames = 28
)

// printHelp prints a command's help, no wider than the terminal.
func printHelp(c *cobra.Command, _ []string) {
	page(c, c.OutOrStdout(), windowWidth(c.OutOrStdout()))
}

// page prints help for a window of so many columns, or, if that is 0, for none.
func page(c *cobra.Command, w io.Writer, width int) {
	h := helpPage{w: w, width: width}
	h.reflow = h.width > 0
	if h.width = min(h.width, widestHelp); h.width == 0 {
		h.width = plainWidth
	}
	h.text(c.Long)
	use := c.UseLine()
	if c.HasAvailableSubCommands() {
		use = c.CommandPath() + " COMMAND [flags]"
	}
	h.section("Usage", use)
	if c.HasAvailableSubCommands() {
		var rows [][2]string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				rows = append(rows, [2]string{sub.Name(), sub.Short})
			}
		}
		h.section("Commands", "")
		h.table(rows)
	}
	if c.Example != "" {
		h.section("Examples", "")
		fmt.Fprintln(h.w, c.Example)
	}
	var headings []string
	rows := map[string][][2]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		heading := "Flags"
		if g := f.Annotations[inGroup]; g != nil {
			heading = g[0] + " flags"
		}
		if !slices.Contains(headings, heading) {
			headings = append(headings, heading)
		}
		rows[heading] = append(rows[heading], flagRow(f))
	})
	for _, heading := range headings {
		h.section(heading, "")
		h.table(rows[heading])
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintln(h.w)
		h.text("Run 'leat COMMAND --help' for more about a command.")
	}
}

// helpPage writes the help of a command. Its writer keeps the errors, which are
// checked when the command ends.
type helpPage struct {
	w      io.Writer
	width  int
	reflow bool // paragraphs are broken anew
}

// text prints paragraphs. Lines that begin with a space stay as they are.
func (h *helpPage) text(text string) {
	if !h.reflow {
		fmt.Fprintln(h.w, text)
		return
	}
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			fmt.Fprintln(h.w, strings.Join(wrapped(strings.Join(paragraph, " "), h.width), "\n"))
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == ' ' {
			flush()
			fmt.Fprintln(h.w, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	flush()
}

// wrapped breaks a text into lines at its spaces. A word that is wider stays whole.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

func (h *helpPage) section(heading, body string) {
	fmt.Fprintf(h.w, "\n%s:\n", heading)
	if body != "" {
		fmt.Fprintf(h.w, "  %s\n", body)
	}
}

// table prints names and what they are.
func (h *helpPage) table(rows [][2]string) {
	names := 0
	for _, r := range rows {
		names = max(names, min(ansi.StringWidth(r[0]), widestNames))
	}
	indent, beside := names+4, h.width >= narrowHelp
	if !beside {
		indent = 4
	}
	for _, r := range rows {
		if !beside {
			r[0] = strings.TrimLeft(r[0], " ")
		}
		about := wrapped(r[1], max(10, h.width-indent))
		fmt.Fprint(h.w, "  ", r[0])
		if gap := indent - 2 - ansi.StringWidth(r[0]); beside && gap > 1 {
			fmt.Fprint(h.w, strings.Repeat(" ", gap), about[0])
			about = about[1:]
		}
		fmt.Fprintln(h.w)
		for _, line := range about {
			fmt.Fprint(h.w, strings.Repeat(" ", indent), line, "\n")
		}
	}
}

// flagRow is a flag as help shows it.
func flagRow(f *pflag.Flag) [2]string {
	value, about := pflag.UnquoteUsage(f)
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	if value != "" {
		name += " " + value
	}
	if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
		about += fmt.Sprintf(" (default: %s)", f.DefValue)
	}
	return [2]string{name, about}
}
