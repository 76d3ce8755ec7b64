package pipeline

import (
	"errors"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Plan says which layers go where, before anything is loaded.
type Plan struct {
	Stages []StagePlan

	layers []stage.Layer
	config Config
	stage  stage.Config
}

// StagePlan is one stage of a plan.
type StagePlan struct {
	Device   device.Info
	From, To int    // its layers: entries From to To-1 in forward order
	Layers   string // the same in words: "embedding, blocks 0-3"
	Weights  int64  // bytes of weights
	State    int64  // bytes of key/value pages
	Overhead int64  // bytes of activations and workspace
	Budget   int64  // bytes that the device may hold; 0: no limit
}

// Bytes is all that the device will hold for the stage.
func (s StagePlan) Bytes() int64 { return s.Weights + s.State + s.Overhead }

// NewPlan places layers on devices. It opens no device and reads no weights. A
// model that doesn't fit is an error that wraps packer.ErrNoFit.
func NewPlan(layers []stage.Layer, options ...Option) (*Plan, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, errors.New("a pipeline of no layers")
	}
	places, err := device.Resolve(c.Devices, c.Threads)
	if err != nil {
		return nil, err
	}
	p := &Plan{layers: layers, config: c, stage: c.stage(min(len(places), len(layers)))}
	runs, entries, devices, err := p.pack(places)
	if err != nil {
		return nil, err
	}
	p.stage = c.stage(len(runs))
	for _, r := range runs {
		s, err := p.describe(r, entries, places[r.Device], devices[r.Device])
		if err != nil {
			return nil, err
		}
		p.Stages = append(p.Stages, s)
	}
	return p, nil
}

// pack asks the packer, with the costs of every layer on every place.
func (p *Plan) pack(places []device.Place) ([]packer.Run, []packer.Entry, []packer.Device, error) {
	infos := make([]device.Info, len(places))
	devices := make([]packer.Device, len(places))
	for i, at := range places {
		infos[i] = at.Info
		overhead, err := p.stage.Overhead(at.Info, p.layers, 0)
		if err != nil {
			return nil, nil, nil, err
		}
		devices[i] = packer.Device{Name: at.Info.Name, Budget: p.budget(at), Overhead: overhead}
	}
	entries := make([]packer.Entry, len(p.layers))
	for i, l := range p.layers {
		e, err := stage.Entry(l, infos, p.stage)
		if err != nil {
			return nil, nil, nil, err
		}
		for d := range e.Costs {
			e.Costs[d].PerRow *= float64(p.stage.Expect)
			if speed := places[d].Speed; speed > 0 {
				// Given speeds are relative to each other: they replace what is
				// known of the devices, for which each is worth its cores.
				speed /= float64(max(1, len(infos[d].Cores)))
				e.Costs[d].Fixed /= speed
				e.Costs[d].PerRow /= speed
			}
		}
		entries[i] = e
	}
	cut := packer.Balanced
	if p.config.Pack == FirstFit {
		cut = packer.FirstFit
	}
	runs, err := cut(entries, devices)
	return runs, entries, devices, err
}

// budget is what a place may hold: what was asked, and on a GPU no more than is
// free. The CPU's devices share the host's memory: for them see Fits.
func (p *Plan) budget(at device.Place) int64 {
	free := at.Info.Free - p.config.reserve(at.Info.Kind)
	if at.Info.Kind == device.CPU || at.Budget >= 0 && at.Budget < free {
		return at.Budget
	}
	return max(0, free)
}

func (p *Plan) describe(r packer.Run, entries []packer.Entry, at device.Place, d packer.Device) (StagePlan, error) {
	layers := p.layers[r.From:r.To]
	overhead, err := p.stage.Overhead(at.Info, layers, 0)
	s := StagePlan{
		Device:   at.Info,
		From:     r.From,
		To:       r.To,
		Layers:   stage.Describe(layers),
		Overhead: overhead,
		Budget:   max(0, d.Budget),
	}
	counted := map[string]bool{}
	for _, e := range entries[r.From:r.To] {
		c := e.Costs[r.Device]
		s.State += c.State
		if c.Shared == "" || !counted[c.Shared] {
			s.Weights += c.Weights
			counted[c.Shared] = true
		}
	}
	return s, err
}

// InFlight is how many micro-batches the plan keeps in flight.
func (p *Plan) InFlight() int { return p.stage.InFlight }

// MaxBatch is the most rows in a micro-batch.
func (p *Plan) MaxBatch() int { return p.stage.MaxRows }

// Fits says whether the host's memory holds what the plan puts on its CPU
// devices, with the numbers in the error. Devices with unknown memory fit.
func (p *Plan) Fits() error {
	var need, free int64
	for _, s := range p.Stages {
		if s.Device.Kind == device.CPU {
			need += s.Bytes()
			free = s.Device.Free
		}
	}
	reserve := p.config.reserve(device.CPU)
	if free > 0 && need > free-reserve {
		return fmt.Errorf("%w: the CPU would hold %s, and of its memory %s are free, of which %s are to stay so",
			packer.ErrNoFit, device.FormatSize(need), device.FormatSize(free), device.FormatSize(reserve))
	}
	return nil
}
