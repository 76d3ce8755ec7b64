package main

import (
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// planDocument is what leat plan --json prints: a placement, with what the plan
// found beside it.
type planDocument struct {
	Version int               `json:"version"`
	Layers  placement.Layers  `json:"layers"`
	Stages  []placement.Stage `json:"stages"`
	Fits    bool              `json:"fits"`
}

func documentOf(p *generate.Plan) (planDocument, error) {
	doc := planDocument{Version: placement.Version, Fits: true}
	var names []string
	var runs []placement.Run
	for _, s := range p.Stages {
		for _, e := range s.Entries {
			names = append(names, e.Name)
		}
		runs = append(runs, placement.Run{Device: s.Place, From: s.From, To: s.To})
		stage := placement.Stage{Device: s.Devices(), From: s.From, To: s.To, Layers: s.Layers}
		for _, r := range s.Each() {
			stage.Bytes = max(stage.Bytes, r.Bytes())
			if r.Budget > 0 && (stage.Budget == 0 || r.Budget < stage.Budget) {
				stage.Budget = r.Budget
			}
		}
		doc.Stages = append(doc.Stages, stage)
	}
	var err error
	doc.Layers, err = placement.LayersOf(names, runs)
	return doc, err
}
