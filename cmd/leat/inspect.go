package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/model/gguf"
)

func inspectCommand() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect FILE | -m FILE",
		Short: "Show a GGUF's metadata and tensors",
		Long: `Shows what a GGUF file holds: its metadata, long values shortened, and its tensors
with their types, shapes (the length of a row first) and bytes. The file may be of
any architecture, and of types that Leat doesn't compute with.`,
		Example: `  leat inspect model.gguf
  leat inspect model.gguf --json`,
		Annotations: map[string]string{readsFile: "all arguments"},
		Args: func(c *cobra.Command, args []string) error {
			if path != "" && len(args) > 0 {
				return usage("%q and -m exclude each other: name the file once", args[0])
			}
			if path != "" {
				return nil
			}
			return arguments(1, "FILE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if path == "" {
				path = args[0]
			}
			f, err := openFile(c.Context(), path, gguf.Open)
			if err != nil {
				return err
			}
			defer closing(f, &err)
			if asJSON {
				return printJSON(c.OutOrStdout(), fileOf(f))
			}
			return printFile(c.OutOrStdout(), f)
		},
	}
	modelFlag(c.Flags(), &path)
	jsonFlag(c.Flags(), &asJSON)
	return c
}

// printFile prints the tables no wider than the terminal behind w.
func printFile(w io.Writer, f *gguf.File) error {
	_, err := lipgloss.Fprint(w, strings.Join(fileLines(f, windowWidth(w)), "\n")+"\n")
	return err
}

// fileLines returns what a file holds in lines of at most width columns; 0: any.
func fileLines(f *gguf.File, width int) []string {
	lines := within(fmt.Sprintf("%s: GGUF version %d, %s, tensors aligned to %d bytes", printable(f.Name()), f.Version(), device.FormatSize(f.Size()), f.Alignment()), width)
	keys := newColumns("key", "type", "value")
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		length := ""
		if v.Kind() == gguf.Array {
			length = fmt.Sprintf("%d: ", v.Len())
		}
		addRow(keys, brief(key), v.TypeName(), length+v.String())
	}
	lines = append(append(lines, ""), fitted(keys, width)...)
	if len(f.Tensors()) == 0 {
		return append(lines, "", "no tensors")
	}
	tensors := newColumns("tensor", "type", "shape", "bytes")
	for _, x := range f.Tensors() {
		addRow(tensors, brief(x.Name), x.Type.String(), shape(x.Dims), fmt.Sprint(x.Size))
	}
	lines = append(append(lines, ""), fitted(tensors, width)...)
	types := newColumns("type", "tensors", "parameters", "size")
	totals := totalsOf(f)
	all := sum(totals)
	all.Type = "all"
	for _, x := range append(totals, all) {
		addRow(types, x.Type, fmt.Sprint(x.Tensors), fmt.Sprint(x.Parameters), device.FormatSize(x.Bytes))
	}
	return append(append(lines, ""), fitted(types, width)...)
}

// brief is a name from a file, fit for a column.
func brief(name string) string {
	const most = 80
	if r := []rune(printable(name)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return printable(name)
}

func shape(dims []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", " × "), "[]")
}

// total is all tensors of a type.
type total struct {
	Type       string `json:"type"`
	Tensors    int    `json:"tensors"`
	Parameters uint64 `json:"parameters"`
	Bytes      int64  `json:"bytes"`
}

// totalsOf returns a row a type, the one with the most bytes first.
func totalsOf(f *gguf.File) []total {
	byType := map[gguf.Type]total{}
	for _, t := range f.Tensors() {
		x := byType[t.Type]
		x.Type = t.Type.String()
		x.Tensors++
		x.Parameters += parameters(t)
		x.Bytes += int64(t.Size)
		byType[t.Type] = x
	}
	totals := []total{}
	for _, x := range byType {
		totals = append(totals, x)
	}
	slices.SortFunc(totals, func(a, b total) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
	return totals
}

func sum(totals []total) total {
	var all total
	for _, x := range totals {
		all.Tensors += x.Tensors
		all.Parameters += x.Parameters
		all.Bytes += x.Bytes
	}
	return all
}

// parameters can't overflow: the tensors lie in the file, side by side.
func parameters(t gguf.Tensor) uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// fileDocument is what leat inspect --json prints.
type fileDocument struct {
	File       string           `json:"file"`
	Version    uint32           `json:"version"`
	Bytes      int64            `json:"bytes"`
	Alignment  uint32           `json:"alignment"`
	Metadata   map[string]any   `json:"metadata"`
	Tensors    []tensorDocument `json:"tensors"`
	Types      []total          `json:"types"`
	Parameters uint64           `json:"parameters"`
}

type tensorDocument struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Shape  []uint64 `json:"shape"` // the length of a row first
	Offset uint64   `json:"offset"`
	Bytes  int      `json:"bytes"`
}

// arrayDocument stands for an array of the metadata.
type arrayDocument struct {
	Type   string `json:"type"`
	Length int    `json:"length"`
	First  any    `json:"first"` // up to shownElements of them
}

const shownElements = 8

func fileOf(f *gguf.File) fileDocument {
	doc := fileDocument{
		File:      f.Name(),
		Version:   f.Version(),
		Bytes:     f.Size(),
		Alignment: f.Alignment(),
		Metadata:  map[string]any{},
		Tensors:   []tensorDocument{},
		Types:     totalsOf(f),
	}
	doc.Parameters = sum(doc.Types).Parameters
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		doc.Metadata[key] = v.Any(shownElements)
		if v.Kind() == gguf.Array {
			doc.Metadata[key] = arrayDocument{v.TypeName(), v.Len(), doc.Metadata[key]}
		}
	}
	for _, t := range f.Tensors() {
		doc.Tensors = append(doc.Tensors, tensorDocument{t.Name, t.Type.String(), t.Dims, t.Offset, int(t.Size)})
	}
	return doc
}
