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
		doc.Stages = append(doc.Stages, placement.Stage{
			Device: s.Device.Name,
			From:   s.From,
			To:     s.To,
			Layers: s.Layers,
			Bytes:  s.Bytes(),
			Budget: s.Budget,
		})
	}
	var err error
	doc.Layers, err = placement.LayersOf(names, runs)
	return doc, err
}
