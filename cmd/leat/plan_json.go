package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// planDocument is what leat plan --json prints: a placement, and what the plan
// found.
type planDocument struct {
	Version  int              `json:"version"`
	Layers   placement.Layers `json:"layers"`
	Stages   []planStage      `json:"stages"`
	Expected planExpected     `json:"expected"`
	Room     planRoom         `json:"room"`
	Unused   []planUnused     `json:"unused"`
	Fits     bool             `json:"fits"`
}

// planStage is one stage. Its memory is that of the replica that holds most.
type planStage struct {
	placement.Stage
	Weights int64   `json:"weights"`
	KVCache int64   `json:"kv_cache"`
	Other   int64   `json:"other"`
	Seconds float64 `json:"seconds"` // from one batch to the next
	Round   float64 `json:"round"`   // share of the time of all stages
}

type planExpected struct {
	Speedup       float64 `json:"speedup"`                   // over the fastest device with all layers
	BatchRows     int     `json:"batch_rows"`                // for which seconds are estimated
	RowsPerSecond float64 `json:"rows_per_second,omitempty"` // of the full pipeline; absent where the list gives speeds
	Crossings     int     `json:"crossings"`
	Slowest       int     `json:"slowest"` // stage, from 0
}

type planRoom struct {
	Context    int    `json:"context"`
	MaxSeqs    int    `json:"max_seqs"`
	Pages      int    `json:"kv_pages"`
	PageTokens int    `json:"page_tokens"`
	Sequences  int    `json:"sequences"`            // of the whole context
	LimitedBy  string `json:"limited_by,omitempty"` // the device that has no room for more pages
}

type planUnused struct {
	Device string `json:"device"`
	Reason string `json:"reason"`
}

func documentOf(p *generate.Plan) (planDocument, error) {
	doc := planDocument{Version: placement.Version, Fits: true, Unused: []planUnused{}}
	var names []string
	var runs []placement.Run
	for i, s := range p.Stages {
		for _, e := range s.Entries {
			names = append(names, e.Name)
		}
		runs = append(runs, placement.Run{Device: s.Place, From: s.From, To: s.To})
		stage := planStage{
			Stage:   placement.Stage{Device: s.Devices(), From: s.From, To: s.To, Layers: s.Layers},
			Seconds: s.Seconds,
			Round:   p.Share(i),
		}
		for _, r := range s.Each() {
			if r.Bytes() > stage.Bytes {
				stage.Bytes, stage.Weights, stage.KVCache, stage.Other = r.Bytes(), r.Weights, r.State, r.Overhead
			}
			if r.Budget > 0 && (stage.Budget == 0 || r.Budget < stage.Budget) {
				stage.Budget = r.Budget
			}
		}
		doc.Stages = append(doc.Stages, stage)
	}
	doc.Expected = planExpected{
		Speedup: p.Speedup(), BatchRows: p.ExpectedRows(), RowsPerSecond: p.RowsPerSecond(),
		Crossings: p.Crossings(), Slowest: p.Slowest(),
	}
	doc.Room = planRoom{
		Context: p.Context, MaxSeqs: p.MaxSeqs, Pages: p.Pages, PageTokens: kernels.PageTokens, Sequences: p.Sequences(),
	}
	if p.Limit != nil {
		doc.Room.LimitedBy = p.Limit.Device
	}
	for _, u := range p.Unused {
		doc.Unused = append(doc.Unused, planUnused{u.Devices, u.Reason})
	}
	var err error
	doc.Layers, err = placement.LayersOf(names, runs)
	return doc, err
}

// noFitDocument is what leat plan --json prints of a model that doesn't fit. It isn't
// a placement: it has no layers.
type noFitDocument struct {
	Version int       `json:"version"`
	Fits    bool      `json:"fits"`
	Error   string    `json:"error"`
	WaysOut []planWay `json:"ways_out"`
}

type planWay struct {
	Flags  string `json:"flags"` // "--ctx 2048", or "no --kv-memory"
	Bytes  int64  `json:"bytes"` // on all devices
	Effect string `json:"effect"`
}

// printNoFit prints err if it says that a model doesn't fit.
func printNoFit(w io.Writer, err error) error {
	var short *generate.NoFitError
	if !errors.As(err, &short) {
		return nil
	}
	doc := noFitDocument{Version: placement.Version, Error: oneLine(short.Err.Error()), WaysOut: []planWay{}}
	for _, way := range short.Ways {
		doc.WaysOut = append(doc.WaysOut, planWay{flagsOf(way), way.Bytes, way.Effect})
	}
	return printIndented(w, doc)
}

// printIndented writes v as JSON on several lines.
func printIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
