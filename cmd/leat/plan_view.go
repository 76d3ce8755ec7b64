package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// planView is a plan as people see it, in a table or in a picture.
type planView struct {
	model    string      // its name
	size     string      // in parameters and bytes of its file
	estimate string      // what the plan is worth, if it is for imagined devices
	stages   []stageView // one a replica
	count    int         // of stages
	memories []string    // what is said of memory that several stages share
	unused   []string    // what is said of devices without a stage
	pace     string      // crossings, and what is expected of the pipeline
	room     string      // what it has for sequences
	limit    string      // what keeps it from having more; empty: nothing does
	round    timeline
}

// stageView is one stage, or one of its replicas.
type stageView struct {
	pipeline.StagePlan
	replica int     // of the stage, from 0
	devices string  // of all its replicas
	device  int     // the same for stages on one device, counted from 0
	limit   int64   // bytes that it may take; 0: not known
	shared  bool    // the limit is that of the memory, for other stages too
	share   float64 // of a round, from 0 to 1: the stage's, with all replicas at work
	pace    float64 // its time against that of the slowest
	slowest bool
}

func newPlanView(m *model.Model, p *generate.Plan) *planView {
	parameters := sum(totalsOf(m.File())).Parameters
	name, _, _ := m.File().String("general.name")
	v := &planView{
		model: brief(cmp.Or(name, filepath.Base(m.File().Name()))),
		size:  fmt.Sprintf("%s parameters in %s", rough(parameters), device.FormatSize(m.File().Size())),
		room: fmt.Sprintf("context of %d tokens, %s, %s of %d tokens",
			p.Context, counted(p.MaxSeqs, "sequence"), counted(p.Pages, "kv page"), kernels.PageTokens),
	}
	v.addStages(p.Stages, p.Slowest())
	v.round = newTimeline(p.Stages, p.InFlight(), p.Routes())
	for _, u := range p.Unused {
		v.unused = append(v.unused, unusedText(u))
	}
	if p.Limit != nil {
		v.limit = fmt.Sprintf("pages for %d of %s at full length: %s has no room for more",
			p.Sequences(), counted(p.MaxSeqs, "sequence"), cmp.Or(p.Limit.Memory, p.Limit.Device))
	}
	slowest := v.stages[slices.IndexFunc(v.stages, func(s stageView) bool { return s.slowest })]
	v.pace = fmt.Sprintf("crossings %d, slowest stage %s (%s of a round), expected %.1f × one device",
		p.Crossings(), v.nameOf(slowest), percent(slowest.share), p.Speedup())
	return v
}

func unusedText(u pipeline.Unused) string {
	return fmt.Sprintf("%s has no stage: %s", u.Devices, u.Reason)
}

// addStages adds the stages, of which the one at slowest takes longest.
func (v *planView) addStages(stages []pipeline.StagePlan, slowest int) {
	type memory struct {
		stages, bytes int64
		what          string
	}
	memories := map[string]memory{}
	devices := map[string]int{}
	round := 0.0
	for _, s := range stages {
		for i, r := range s.Each() {
			m := memories[r.Memory]
			m.stages++
			m.bytes += r.Bytes()
			if m.what = cmp.Or(m.what, "stages"); i > 0 {
				m.what = "stages and replicas"
			}
			memories[r.Memory] = m
			if _, known := devices[r.Device.Name]; !known {
				devices[r.Device.Name] = len(devices)
			}
		}
		round += s.Seconds
	}
	v.count = len(stages)
	told := map[string]bool{}
	for i, s := range stages {
		for n, r := range s.Each() {
			m := memories[r.Memory]
			view := stageView{StagePlan: r, replica: n, devices: s.Devices(), device: devices[r.Device.Name], limit: r.Budget, slowest: i == slowest}
			switch {
			case r.Budget == 0:
				view.limit, view.shared = r.Room, r.Room > 0 && m.stages > 1
			case r.Room > 0 && m.stages == 1:
				view.limit = min(r.Budget, r.Room)
			}
			if round > 0 {
				view.share, view.pace = s.Seconds/round, s.Seconds/stages[slowest].Seconds
			}
			v.stages = append(v.stages, view)
			if r.Room > 0 && m.stages > 1 && !told[r.Memory] {
				told[r.Memory] = true
				v.memories = append(v.memories, fmt.Sprintf("%s is shared: %d %s take %s that are free",
					r.Memory, m.stages, m.what, outOf(m.bytes, r.Room, " of the ")))
			}
		}
	}
}

// name is the stage's device. That of a replica stands behind the one before, as in
// a device list.
func (s stageView) name() string {
	if s.replica > 0 {
		return "| " + s.Device.Name
	}
	return s.Device.Name
}

// nameOf tells a stage from the others: by its devices, and by its layers where
// these have other stages.
func (v *planView) nameOf(s stageView) string {
	for _, other := range v.stages {
		if other.From != s.From && other.devices == s.devices {
			return fmt.Sprintf("%s with %s", s.devices, s.Layers)
		}
	}
	return s.devices
}

// full is how much of its limit a stage takes, if that is known.
func (s stageView) full() (part float64, known bool) {
	if s.limit <= 0 {
		return 0, false
	}
	return float64(s.Bytes()) / float64(s.limit), true
}

// outOf is "12.3 / 20.0 GiB", where the unit is said once if it is the same.
func outOf(part, all int64, between string) string {
	a, b := device.FormatSize(part), device.FormatSize(all)
	if unit(a) == unit(b) {
		a = strings.TrimSuffix(a, " "+unit(a))
	}
	return a + between + b
}

// unit is what FormatSize counts a size in.
func unit(size string) string { return size[strings.LastIndexByte(size, ' ')+1:] }

// percent is a share for people, who are not told that something is nothing.
func percent(part float64) string {
	if part > 0 && part < 0.005 {
		return "<1%"
	}
	return fmt.Sprintf("%.0f%%", 100*part)
}

// rough is a large number in words.
func rough(n uint64) string {
	for _, word := range []struct {
		n    uint64
		name string
	}{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
		if n >= word.n {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(word.n), word.name)
		}
	}
	return fmt.Sprint(n)
}
