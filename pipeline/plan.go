package pipeline

import (
	"context"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Plan says which layers go where, before anything is loaded.
type Plan struct {
	Stages []StagePlan
	Notes  []string // what the user should know: layers that went to a placement's fallback

	site   *Site
	runs   []packer.Run
	layers []stage.Layer
	config Config
	stage  stage.Config
	alone  float64 // seconds that a batch takes where one place, the fastest, has all layers
}

// StagePlan is one stage of a plan.
type StagePlan struct {
	Device   device.Info
	Place    string  // the device as a list has it, with its budget and speed
	From, To int     // its layers: entries From to To-1 in forward order
	Layers   string  // the same in words: "embedding, blocks 0-3"
	Entries  []Entry // the same one by one
	Weights  int64   // bytes of weights; those that an earlier stage put on the same device are counted there
	State    int64   // bytes of key/value pages
	Overhead int64   // bytes of activations and workspace
	Budget   int64   // bytes that the place may hold; 0: none was given
	Memory   string  // what holds it, maybe together with other stages: the host's memory, or a GPU's
	Room     int64   // bytes that all stages there may hold; 0: not known
	Seconds  float64 // that a batch of the expected size takes, by estimate
}

// Entry is one layer of a stage.
type Entry struct {
	Name           string
	Weights, State int64   // bytes
	Seconds        float64 // a batch
}

// Bytes is all that the device will hold for the stage.
func (s StagePlan) Bytes() int64 { return s.Weights + s.State + s.Overhead }

// NewPlan surveys the devices and plans for them; see Survey and Site.Plan.
func NewPlan(ctx context.Context, layers []stage.Layer, options ...Option) (*Plan, error) {
	s, err := Survey(ctx, layers, options...)
	if err != nil {
		return nil, err
	}
	return s.Plan(s.config.State)
}

// costs returns what every layer takes at every place, and what the places have.
func (p *Plan) costs(places []device.Place) ([]packer.Entry, []packer.Device, error) {
	infos := make([]device.Info, len(places))
	copied := false // activations cross from one memory to another
	for i, at := range places {
		infos[i] = at.Info
		copied = copied || at.Info.Kind != device.CPU
	}
	devices := make([]packer.Device, len(places))
	memories := map[string]*packer.Memory{}
	for i, at := range places {
		run, err := p.stage.Overheads(at.Info, p.layers, copied)
		if err != nil {
			return nil, nil, err
		}
		devices[i] = packer.Device{Name: at.Info.Name, Budget: p.budget(at), Run: run, Memory: p.memory(memories, at)}
	}
	entries := make([]packer.Entry, len(p.layers))
	for i, l := range p.layers {
		e, err := stage.Entry(l, infos, p.stage)
		if err != nil {
			return nil, nil, err
		}
		for d := range e.Costs {
			p.seconds(&e.Costs[d], places[d])
		}
		entries[i] = e
	}
	p.alone = math.Inf(1)
	for d := range places {
		var all float64
		for _, e := range entries {
			all += e.Costs[d].Fixed + e.Costs[d].PerRow
		}
		p.alone = min(p.alone, all)
	}
	return entries, devices, nil
}

// budget is what a place may hold beside what this process's other pipelines
// hold on its device.
func (p *Plan) budget(at device.Place) int64 {
	if at.Budget < 0 || p.config.Imagined {
		return at.Budget
	}
	return max(0, at.Budget-device.InUse(at.Info.Name))
}

// memory is what a place's device holds its stages in: the host's for all groups
// of cores, a GPU's own. An imagined device has what its budget says.
func (p *Plan) memory(known map[string]*packer.Memory, at device.Place) *packer.Memory {
	name := at.Info.Name
	if at.Info.Kind == device.CPU {
		name = "the host's memory"
	}
	m := known[name]
	if m == nil {
		m = &packer.Memory{Name: name, Budget: -1}
		if at.Info.Free > 0 && !p.config.Imagined {
			m.Budget = max(0, at.Info.Free-p.config.reserve(at.Info.Kind))
		}
		known[name] = m
	}
	return m
}

// seconds turns a cost into what a batch of the expected size takes at a place.
func (p *Plan) seconds(c *packer.Cost, at device.Place) {
	c.PerRow *= float64(p.stage.Expect)
	if at.Speed > 0 {
		// Given speeds are relative to each other: they replace what is known of
		// the devices, for which each is worth its cores.
		speed := at.Speed / float64(max(1, len(at.Info.Cores)))
		c.Fixed /= speed
		c.PerRow /= speed
	}
}

// describe sets the plan's stages.
func (p *Plan) describe(runs []packer.Run, entries []packer.Entry, places []device.Place) error {
	p.stage = p.config.stage(len(runs))
	there := map[[2]string]bool{} // what lies on a device under a shared name
	for i, r := range runs {
		at := places[r.Device]
		layers := p.layers[r.From:r.To]
		s := StagePlan{
			Device: at.Info,
			Place:  at.String(),
			From:   r.From,
			To:     r.To,
			Layers: stage.Describe(layers),
			Budget: max(0, at.Budget),
		}
		m := p.memory(map[string]*packer.Memory{}, at)
		s.Memory, s.Room = m.Name, max(0, m.Budget)
		copied := i > 0 && (at.Info.Kind != device.CPU || places[runs[i-1].Device].Info.Kind != device.CPU)
		overhead, err := p.stage.Overheads(at.Info, p.layers[max(0, r.From-1):r.To], copied)
		if err != nil {
			return err
		}
		s.Overhead = overhead(min(1, r.From), r.To-max(0, r.From-1))
		for _, e := range entries[r.From:r.To] {
			c := e.Costs[r.Device]
			own := Entry{Name: e.Name, Weights: c.Weights, State: c.State, Seconds: c.Fixed + c.PerRow}
			shared := [2]string{at.Info.Name, c.Shared}
			if c.Shared != "" && there[shared] {
				own.Weights = 0
			}
			there[shared] = true
			s.Entries = append(s.Entries, own)
			s.Weights += own.Weights
			s.State += own.State
			s.Seconds += own.Seconds
		}
		p.Stages = append(p.Stages, s)
	}
	return nil
}

// InFlight is how many micro-batches the plan keeps in flight.
func (p *Plan) InFlight() int { return p.stage.InFlight }

// InFlightGiven says that it was asked for, and isn't by the number of stages.
func (p *Plan) InFlightGiven() bool { return p.config.InFlight > 0 }

// MaxBatch is the most rows in a micro-batch.
func (p *Plan) MaxBatch() int { return p.stage.MaxRows }

// Crossings is how often activations go from one device to another.
func (p *Plan) Crossings() int {
	n := 0
	for i := 1; i < len(p.Stages); i++ {
		if p.Stages[i].Device.Name != p.Stages[i-1].Device.Name {
			n++
		}
	}
	return n
}

// Speedup is how many times as many batches the plan is expected to do as the
// fastest of its places would with all layers, were there room.
func (p *Plan) Speedup() float64 {
	slowest := p.Stages[p.Slowest()].Seconds
	if slowest == 0 {
		return 1
	}
	return p.alone / slowest
}

// Slowest is the stage that a batch takes longest in, which sets the pace.
func (p *Plan) Slowest() int {
	slowest := 0
	for i, s := range p.Stages {
		if s.Seconds > p.Stages[slowest].Seconds {
			slowest = i
		}
	}
	return slowest
}
