package pipeline

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Plan says which layers go where, before anything is loaded.
type Plan struct {
	Stages []StagePlan
	Unused []Unused // the places of the device list that have no stage, in the order of the list
	Notes  []string // what the user should know: layers that went to a placement's fallback

	site   *Site
	runs   []packer.Run
	layers []stage.Layer
	config Config
	stage  stage.Config
	routes int
	alone  float64 // seconds that a batch takes where one device, the fastest, has all layers
}

// StagePlan is one stage of a plan: of one that has replicas, what they hold
// together.
type StagePlan struct {
	Device   device.Info   // that it stands on; the first of Replicas
	Replicas []device.Info // the devices that each have the stage, where there are several
	Place    string        // where it stands as a list has it, with budget and speed: "cpu:0=1073741824|cpu:1"
	From, To int           // its layers: entries From to To-1 in forward order
	Layers   string        // the same in words: "embedding, blocks 0-3"
	Entries  []Entry       // the same one by one
	Weights  int64         // bytes of weights; those that an earlier stage put on the same device are counted there
	State    int64         // bytes of key/value pages
	Overhead int64         // bytes of activations and workspace
	Budget   int64         // bytes that the place may hold; 0: none was given, or not for all replicas
	Memory   string        // what holds it, maybe together with other stages: the host's memory, or a GPU's
	Room     int64         // bytes that all stages there may hold; 0: not known
	Seconds  float64       // from one batch of the expected size to the next, by estimate; see Each

	each []StagePlan
}

// Unused is a place that has no stage, and why.
type Unused struct {
	Devices string // its devices: "cpu:0", or "cpu:0|cpu:1"
	Reason  string // "its budget is 0", without a full stop
}

// Entry is one layer of a stage.
type Entry struct {
	Name           string
	Weights, State int64   // bytes
	Seconds        float64 // a batch
}

// Bytes is all that its device, or its devices together, will hold for the stage.
func (s StagePlan) Bytes() int64 { return s.Weights + s.State + s.Overhead }

// Each returns the stage's replicas, each as a stage by itself: its bytes are those
// of one device, its seconds those that one batch takes there. A stage without
// replicas is its only one.
func (s StagePlan) Each() []StagePlan {
	if s.each == nil {
		return []StagePlan{s}
	}
	return s.each
}

// Devices is the names of its devices: "cpu:0", or "cpu:0|cpu:1".
func (s StagePlan) Devices() string {
	name := s.Device.Name
	for i, d := range s.Replicas {
		if i > 0 {
			name += "|" + d.Name
		}
	}
	return name
}

// NewPlan surveys the devices and plans for them; see Survey and Site.Plan.
func NewPlan(ctx context.Context, layers []stage.Layer, options ...Option) (*Plan, error) {
	s, err := Survey(ctx, layers, options...)
	if err != nil {
		return nil, err
	}
	return s.Plan(ctx, s.config.State)
}

// Routes is how many ways through the stages there are: a batch goes by one, which
// is one replica a stage. Without replicas it is 1.
func (p *Plan) Routes() int { return p.routes }

// standing is how many stages there are, each replica counted.
func (p *Plan) standing() (n int) {
	for _, s := range p.Stages {
		n += len(s.Each())
	}
	return n
}

// InFlight is how many micro-batches the plan keeps in flight on each route.
func (p *Plan) InFlight() int { return p.stage.InFlight / p.routes }

// InFlightGiven says that it was asked for, and isn't by the number of stages.
func (p *Plan) InFlightGiven() bool { return p.config.InFlight > 0 }

// FailureLimit is how many batches may fail one after the other; see
// WithFailureLimit.
func (p *Plan) FailureLimit() int { return p.config.FailureLimit }

// MaxBatch is the most rows in a micro-batch.
func (p *Plan) MaxBatch() int { return p.stage.MaxRows }

// Crossings is how often activations go from one device to another.
func (p *Plan) Crossings() int {
	n := 0
	for i := 1; i < len(p.Stages); i++ {
		if p.Stages[i].Devices() != p.Stages[i-1].Devices() {
			n++
		}
	}
	return n
}

// Speedup is how many times as many batches the plan is expected to do as the
// fastest of its devices would with all layers, were there room.
//
// Stages on the same cores, or the same GPU, take turns.
func (p *Plan) Speedup() float64 {
	busiest := p.busiest()
	if busiest == 0 {
		return 1
	}
	return p.alone / busiest
}

// busiest returns the seconds for each batch of the core, or the GPU, that has most to
// do: stages on the same one take turns.
func (p *Plan) busiest() (busiest float64) {
	turns := map[string]float64{} // a core's, or a GPU's, seconds for each batch
	for _, s := range p.Stages {
		replicas := s.Each()
		for _, r := range replicas {
			for _, where := range r.units() {
				turns[where] += r.Seconds / float64(len(replicas))
				busiest = max(busiest, turns[where])
			}
		}
	}
	return busiest
}

// Share returns a stage's share of a round, which is the time that a batch takes
// through all stages: from 0 to 1.
func (p *Plan) Share(stage int) float64 {
	round := 0.0
	for _, s := range p.Stages {
		round += s.Seconds
	}
	if round == 0 {
		return 0
	}
	return p.Stages[stage].Seconds / round
}

// ExpectedRows returns the rows of the batch for which the plan's times are estimated.
func (p *Plan) ExpectedRows() int { return p.stage.Expect }

// RowsPerSecond returns how many rows the full pipeline is expected to compute a second.
// It is an estimate by what was measured of the devices, or where nothing was, by what a
// core commonly does. It is 0 if the layers take no time, or if the device list gives
// speeds, which are relative to each other.
func (p *Plan) RowsPerSecond() float64 {
	busiest := p.busiest()
	for _, place := range p.site.places {
		for _, at := range place.Each() {
			if at.Speed > 0 {
				busiest = 0
			}
		}
	}
	if busiest == 0 {
		return 0
	}
	return float64(p.stage.Expect) / busiest
}

// units are the cores of a stage's device, or the device.
func (s StagePlan) units() (names []string) {
	if len(s.Device.Cores) == 0 {
		return []string{s.Device.Name}
	}
	for _, core := range s.Device.Cores {
		names = append(names, fmt.Sprint(core))
	}
	return names
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
