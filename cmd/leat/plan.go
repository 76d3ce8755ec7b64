package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline/generate"
)

type planFlags struct {
	model    string
	json     bool
	pipeline pipelineFlags
}

func planCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan -m FILE",
		Short: "Show where each layer would go",
		Long: `Shows which layers would go to which device, the bytes that they would take there,
and the devices' budgets. Loads nothing.

With --json the object is a placement too: its layers are named embedding, 0, 1-2
(blocks) and output. Entries from and to are counted in forward order: 0 is the
embedding, then each block, then the output head; to is not included.`,
		Example: `  leat plan -m model.gguf --devices cuda:0=20GiB,cpu
  leat plan -m model.gguf --devices cpu/2 --ctx 2048 --max-seqs 16 --json`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	jsonFlag(flags, &f.json)
	f.pipeline.add(flags, 64)
	return c
}

func (f *planFlags) run(c *cobra.Command) (err error) {
	m, err := openModel(f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	p, err := f.pipeline.plan(c.ErrOrStderr(), m)
	if err != nil {
		return err
	}
	unfit := p.Fits()
	if f.json {
		err = printJSON(c.OutOrStdout(), documentOf(p, unfit == nil))
	} else {
		err = printPlan(c.OutOrStdout(), p)
	}
	if err == nil {
		err = unfit
	}
	return err
}

func printPlan(w io.Writer, p *generate.Plan) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "device\tlayers\tweights\tkv cache\tother\ttotal / budget")
	size := device.FormatSize
	for _, s := range p.Stages {
		budget := "no limit"
		if s.Budget > 0 {
			budget = size(s.Budget)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s / %s\n",
			s.Device.Name, s.Layers, size(s.Weights), size(s.State), size(s.Overhead), size(s.Bytes()), budget)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, context of %d tokens, %s, %s of %d tokens\n",
		counted(len(p.Stages), "stage"), p.Context, counted(p.MaxSeqs, "sequence"), counted(p.Pages, "kv page"), kernels.PageTokens)
	return err
}

// counted says how many there are of something.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// planDocument is what leat plan --json prints.
type planDocument struct {
	Version int               `json:"version"`
	Layers  map[string]string `json:"layers"`
	Stages  []placeDocument   `json:"stages"`
	Fits    bool              `json:"fits"`
}

type placeDocument struct {
	Device string `json:"device"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	Layers string `json:"layers"`
	Bytes  int64  `json:"bytes"`
	Budget int64  `json:"budget"`
}

func documentOf(p *generate.Plan, fits bool) planDocument {
	doc := planDocument{Version: 1, Layers: map[string]string{}, Fits: fits}
	entries := p.Stages[len(p.Stages)-1].To
	for _, s := range p.Stages {
		doc.Stages = append(doc.Stages, placeDocument{s.Device.Name, s.From, s.To, s.Layers, s.Bytes(), s.Budget})
		for _, key := range placementKeys(s.From, s.To, entries) {
			doc.Layers[key] = s.Device.Name
		}
	}
	return doc
}

// placementKeys names the entries from..to-1 of a model as a placement does: the
// first of all is the embedding, the last the output head, between them are the
// blocks, counted from 0.
func placementKeys(from, to, entries int) []string {
	var keys []string
	if from == 0 && to > 0 {
		keys = append(keys, "embedding")
	}
	first, last := max(from, 1)-1, min(to, entries-1)-2
	switch {
	case first == last:
		keys = append(keys, strconv.Itoa(first))
	case first < last:
		keys = append(keys, fmt.Sprintf("%d-%d", first, last))
	}
	if to == entries && entries > 1 {
		keys = append(keys, "output")
	}
	return keys
}

// join is names in the order in which activations go through them.
func join(names []string) string { return strings.Join(names, " → ") }
