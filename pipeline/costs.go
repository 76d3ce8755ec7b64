package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// mostCosts limits the number of layers times the number of places. While a plan is made,
// each such pair takes about 100 bytes.
const mostCosts = 1 << 22

// costs returns the input of the packer: the cost of every layer at every place, and the
// budgets and memories of the places.
func (p *Plan) costs(ctx context.Context, places []device.Place) ([]packer.Entry, []packer.Device, error) {
	if len(p.layers) > mostCosts/len(places) {
		return nil, nil, fmt.Errorf("%d layers can't be planned for %d devices: layers × devices may be at most %d; name fewer devices", len(p.layers), len(places), mostCosts)
	}
	copied := slices.ContainsFunc(places, func(at device.Place) bool {
		return !at.Info.HostMemory // activations cross from one memory to another
	})
	entries := make([]packer.Entry, len(p.layers))
	all := make([]packer.Cost, len(p.layers)*len(places))
	for i, l := range p.layers {
		entries[i] = packer.Entry{Name: l.Name(), OutBytes: int64(l.Shape().Width) * 4, Costs: all[i*len(places):][:len(places):len(places)]}
	}
	overheads := p.stage.Overheads(p.layers)
	devices := make([]packer.Device, len(places))
	memories := map[string]*packer.Memory{}
	p.alone = math.Inf(1)
	for d, at := range places {
		each := at.Each()
		costs, err := p.on(ctx, each, p.layers)
		if err != nil {
			return nil, nil, err
		}
		for i := range entries {
			entries[i].Costs[d] = together(each, costs, i)
		}
		for r, replica := range each {
			run, err := overheads.On(replica.Info, copied)
			if err != nil {
				return nil, nil, err
			}
			has := packer.Replica{Name: replica.Info.Name, Budget: p.budget(replica), Run: run, Memory: p.memory(memories, replica)}
			if r == 0 {
				devices[d] = packer.Device{Name: has.Name, Budget: has.Budget, Run: has.Run, Memory: has.Memory}
			} else {
				devices[d].Also = append(devices[d].Also, has)
			}
			var all float64
			for _, c := range costs[r] {
				all += c.Fixed + c.PerRow
			}
			p.alone = min(p.alone, all)
		}
	}
	return entries, devices, nil
}

// on returns the costs of layers on each replica of a place. Their state is that of all
// routes through the replica, and their seconds are those of a batch of the expected size.
func (p *Plan) on(ctx context.Context, each []device.Place, layers []stage.Layer) ([][]packer.Cost, error) {
	infos := make([]device.Info, len(each))
	for r, at := range each {
		infos[r] = at.Info
	}
	c := p.stage.Serving(p.routes / len(each))
	costs := make([][]packer.Cost, len(each))
	for _, l := range layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := stage.Entry(l, infos, c)
		if err != nil {
			return nil, err
		}
		for r := range each {
			p.seconds(&e.Costs[r], each[r])
			costs[r] = append(costs[r], e.Costs[r])
		}
	}
	return costs, nil
}

// together returns the cost of a layer at a place with replicas: the bytes of one of them,
// and the seconds from one batch to the next. The replicas get batches in turn, so that
// the slowest one limits the throughput. Replicas on the same device also take turns.
func together(each []device.Place, costs [][]packer.Cost, layer int) packer.Cost {
	all := costs[0][layer]
	if len(each) == 1 {
		return all
	}
	slowest := -1.0
	for r := range each {
		c := costs[r][layer]
		share := 0.0 // the fraction of the batches that pass through this device
		for _, other := range each {
			if other.Info.Name == each[r].Info.Name {
				share += 1 / float64(len(each))
			}
		}
		if seconds := (c.Fixed + c.PerRow) * share; seconds > slowest {
			slowest = seconds
			all.Fixed, all.PerRow = c.Fixed*share, c.PerRow*share
		}
		all.Weights, all.State = max(all.Weights, c.Weights), max(all.State, c.State)
	}
	return all
}

// budget returns a place's budget less what other pipelines of this process have allocated
// on its device. A negative budget means that the list gives none.
func (p *Plan) budget(at device.Place) int64 {
	if at.Budget < 0 || at.Info.Imagined {
		return at.Budget
	}
	return max(0, at.Budget-allocated.Bytes(at.Info.Name))
}

// memory returns the memory that a place's device allocates in. Devices with the same
// memory get the same *packer.Memory from known. The size of an imagined device's memory
// isn't known: its budget limits it.
func (p *Plan) memory(known map[string]*packer.Memory, at device.Place) *packer.Memory {
	name := at.Info.MemoryName()
	m := known[name]
	if m == nil {
		m = &packer.Memory{Name: name, Budget: -1}
		if at.Info.Free > 0 && !at.Info.Imagined {
			m.Budget = max(0, at.Info.Free-p.reserve(at.Info))
		}
		known[name] = m
	}
	return m
}

// seconds changes the times of a cost, which are those of one row, to those of a batch of
// the expected size at a place.
func (p *Plan) seconds(c *packer.Cost, at device.Place) {
	c.PerRow *= float64(p.stage.Expect)
	if at.Speed > 0 {
		// Given speeds are relative to each other. They replace the number of cores,
		// on which the cost was based.
		speed := at.Speed / float64(max(1, len(at.Info.Cores)))
		c.Fixed /= speed
		c.PerRow /= speed
	}
}

// describe sets p.Stages.
func (p *Plan) describe(ctx context.Context, runs []packer.Run, places []device.Place) error {
	c, err := p.config.stage(len(runs), p.routes)
	if err != nil {
		return err
	}
	p.stage = c
	overheads := c.Overheads(p.layers)
	there := map[[2]string]int64{} // bytes of shared weights that have been counted, by device and shared name
	for i, r := range runs {
		at := places[r.Device]
		each := at.Each()
		costs, err := p.on(ctx, each, p.layers[r.From:r.To])
		if err != nil {
			return err
		}
		var replicas []StagePlan
		for j, replica := range each {
			copied := i > 0 && p.copied(j, each, places[runs[i-1].Device].Each())
			s, err := p.replica(r, replica, costs[j], overheads, copied, there)
			if err != nil {
				return err
			}
			replicas = append(replicas, s)
		}
		s := replicas[0]
		if len(replicas) > 1 {
			s = joined(replicas)
			s.Place = at.String()
			s.Seconds = 0
			for e := range s.Entries {
				c := together(each, costs, e)
				s.Entries[e].Seconds = c.Fixed + c.PerRow
				s.Seconds += s.Entries[e].Seconds
			}
		}
		p.Stages = append(p.Stages, s)
	}
	return nil
}

// copied reports whether activations are copied to replica j of a place from another
// memory.
func (p *Plan) copied(j int, each, before []device.Place) bool {
	own := each[j].Info
	return slices.ContainsFunc(met(j, len(each), len(before), p.routes), func(n int) bool {
		return !own.SharesMemory(before[n].Info)
	})
}

// replica describes one replica of a run of layers.
func (p *Plan) replica(r packer.Run, at device.Place, costs []packer.Cost, overheads *stage.Overheads, copied bool, there map[[2]string]int64) (StagePlan, error) {
	s := StagePlan{
		Device: at.Info,
		Place:  at.String(),
		From:   r.From,
		To:     r.To,
		Layers: stage.Describe(p.layers[r.From:r.To]),
		Budget: max(0, at.Budget),
	}
	m := p.memory(map[string]*packer.Memory{}, at)
	s.Memory, s.Room = m.Name, max(0, m.Budget)
	overhead, err := overheads.On(at.Info, copied)
	if err != nil {
		return s, err
	}
	s.Overhead = overhead(r.From, r.To)
	for i, c := range costs {
		own := Entry{Name: p.layers[r.From+i].Name(), Weights: c.Weights, State: c.State, Seconds: c.Fixed + c.PerRow}
		if shared := [2]string{at.Info.Name, c.Shared}; c.Shared != "" {
			own.Weights -= min(there[shared], c.Weights-c.Own)
			there[shared] = max(there[shared], c.Weights-c.Own)
		}
		s.Entries = append(s.Entries, own)
		s.Weights += own.Weights
		s.State += own.State
		s.Seconds += own.Seconds
	}
	return s, nil
}

// joined returns a stage with the sizes of all its replicas together.
func joined(replicas []StagePlan) StagePlan {
	s := replicas[0]
	s.each = replicas
	s.Entries = slices.Clone(s.Entries)
	var memories []string
	budgets, rooms := true, true // are known for all replicas
	s.Weights, s.State, s.Overhead, s.Budget, s.Room = 0, 0, 0, 0, 0
	for i, r := range replicas {
		s.Replicas = append(s.Replicas, r.Device)
		s.Weights += r.Weights
		s.State += r.State
		s.Overhead += r.Overhead
		s.Budget += r.Budget
		budgets = budgets && r.Budget > 0
		if !slices.Contains(memories, r.Memory) {
			memories = append(memories, r.Memory)
			s.Room += r.Room
			rooms = rooms && r.Room > 0
		}
		for e := range s.Entries {
			if i > 0 {
				s.Entries[e].Weights += r.Entries[e].Weights
				s.Entries[e].State += r.Entries[e].State
			}
		}
	}
	s.Memory = strings.Join(memories, " and ")
	if !budgets {
		s.Budget = 0
	}
	if !rooms {
		s.Room = 0
	}
	return s
}
