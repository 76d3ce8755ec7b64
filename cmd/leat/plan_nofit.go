package main

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline/generate"
)

// reportNoFit writes that a model doesn't fit, and the ways out as a table.
func reportNoFit(w io.Writer, e *generate.NoFitError) {
	text := "leat: " + oneLine(e.Err.Error()) + "\n" + noFitTable(e.Ways, windowWidth(w)) + "\n"
	_, _ = io.WriteString(w, text)
}

// noFitTable returns the ways out in lines at most width columns wide; 0: any.
func noFitTable(ways []generate.WayOut, width int) string {
	if len(ways) == 0 {
		return strings.Join(within(sentence(generate.NoWayOut), width), "\n")
	}
	flags, sizes := column{title: "it fits with"}, column{title: "bytes in all", right: true}
	effects := column{title: "which gives"}
	for _, way := range ways {
		flags.cells = append(flags.cells, flagsOf(way))
		sizes.cells = append(sizes.cells, device.FormatSize(way.Bytes))
		effects.cells = append(effects.cells, way.Effect)
	}
	columns := []column{flags, sizes, effects}
	lines := layOut(columns, 0)
	if width > 0 && slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > width }) {
		lines = append(within("it fits with", width), records(columns, width)...)
	}
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

// flagsOf returns a way out as flags of the command.
func flagsOf(w generate.WayOut) string {
	flag := map[generate.Setting]string{
		generate.SettingContext:  "--ctx",
		generate.SettingMaxSeqs:  "--max-seqs",
		generate.SettingKV:       "--kv",
		generate.SettingKVMemory: "--kv-memory",
	}[w.Setting]
	if w.Value == "" {
		return "no " + flag
	}
	return flag + " " + w.Value
}
