package pipeline

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Plan says which layers are assigned to which device, before anything is loaded.
// [Open] makes a [Pipeline] of it, [OpenLine] a [Line].
type Plan struct {
	Stages []StagePlan
	Unused []Unused // the entries of the device list that have no stage, in the order of the list
	Notes  []string // messages for the user: which layers are on a placement's fallback device, and why

	site   *Site
	runs   []packer.Run
	layers []stage.Layer
	config config
	stage  stage.Config
	routes int
	alone  float64 // seconds that a batch takes on the fastest device, if that has all layers
}

// StagePlan is one stage of a plan. If the stage has replicas, the sizes are the sums
// over all of them.
type StagePlan struct {
	Device   device.Info   // the stage's device; the first one if there are replicas
	Replicas []device.Info // the devices of all replicas; nil if there is one
	Place    string        // the stage's entry in a device list, with budget and speed: "cpu:0=1073741824|cpu:1"
	From, To int           // the stage has layers From to To-1, in forward order
	Layers   string        // the layers' names, shortened: "embedding, blocks 0-3"
	Entries  []Entry       // the layers, one by one
	Weights  int64         // bytes of weights; weights that an earlier stage has loaded on the same device count there
	State    int64         // bytes of key/value pages
	Overhead int64         // bytes of activations and workspace
	Budget   int64         // bytes that the stage may allocate; 0: the list gives no budget, or not for each replica
	Memory   string        // the memory that the stage is in, such as the host's or that of a GPU
	Room     int64         // bytes of that memory that all stages in it may use; 0: not known
	Seconds  float64       // estimated time from one batch of the expected size to the next; see Each

	each []StagePlan
}

// Unused is an entry of the device list that has no stage.
type Unused struct {
	Devices string // the devices' names: "cpu:0", or "cpu:0|cpu:1"
	Reason  string // why it has no stage, as part of a sentence: "its budget is 0"
}

// Entry is one layer of a stage.
type Entry struct {
	Name           string
	Weights, State int64   // in bytes
	Seconds        float64 // estimated time for a batch of the expected size
}

// Bytes returns how many bytes the stage allocates, on all of its replicas' devices.
func (s StagePlan) Bytes() int64 { return s.Weights + s.State + s.Overhead }

// Each returns one StagePlan for each replica of the stage, with the sizes of that
// replica alone, and with the time that a batch takes there as Seconds. For a stage
// without replicas it returns the stage itself.
func (s StagePlan) Each() []StagePlan {
	if s.each == nil {
		return []StagePlan{s}
	}
	return s.each
}

// Devices returns the names of the stage's devices: "cpu:0", or "cpu:0|cpu:1".
func (s StagePlan) Devices() string {
	name := s.Device.Name
	for i, d := range s.Replicas {
		if i > 0 {
			name += "|" + d.Name
		}
	}
	return name
}

// NewPlan looks up the devices and assigns the layers to them. Its errors are those of
// [Survey] and [Site.Plan].
func NewPlan(ctx context.Context, layers []stage.Layer, options ...Option) (*Plan, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	s, err := survey(ctx, layers, c)
	if err != nil {
		return nil, err
	}
	return s.Plan(ctx, c.state)
}

// Routes returns the number of routes. A route leads through one replica of each stage,
// and each batch takes one route. Without replicas there is one route.
func (p *Plan) Routes() int { return p.routes }

// replicas returns the number of replicas of all stages together.
func (p *Plan) replicas() (n int) {
	for _, s := range p.Stages {
		n += len(s.Each())
	}
	return n
}

// InFlight returns how many micro-batches may be in flight on each route.
func (p *Plan) InFlight() int { return p.stage.InFlight / p.routes }

// InFlightGiven reports whether [WithInFlight] set that number. Otherwise it is the
// number of stages.
func (p *Plan) InFlightGiven() bool { return p.config.inFlight > 0 }

// MaxBatch returns the most rows in a micro-batch.
func (p *Plan) MaxBatch() int { return p.stage.MaxRows }

// Crossings returns how many times the activations of a batch move from one device to
// another.
func (p *Plan) Crossings() int {
	n := 0
	for i := 1; i < len(p.Stages); i++ {
		if p.Stages[i].Devices() != p.Stages[i-1].Devices() {
			n++
		}
	}
	return n
}

// Speedup returns the expected throughput of the plan, relative to that of its fastest
// device with all layers, whether or not that device has the memory for them. Stages on
// the same cores, or on the same GPU, take turns.
func (p *Plan) Speedup() float64 {
	busiest := p.busiest()
	if busiest == 0 {
		return 1
	}
	return p.alone / busiest
}

// busiest returns how many seconds for each batch the core or GPU with the most work
// needs. Stages on the same core or GPU take turns.
func (p *Plan) busiest() (busiest float64) {
	turns := map[string]float64{} // seconds for each batch, by core or GPU
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

// Share returns the fraction, from 0 to 1, that a stage has of the time that a batch
// takes to pass through all stages.
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

// ExpectedRows returns the number of rows in a batch for which the plan's times are
// estimated.
func (p *Plan) ExpectedRows() int { return p.stage.Expect }

// RowsPerSecond returns the estimated throughput of the pipeline, in rows a second. The
// estimate is based on the measured speed of the devices, or, if they were not measured,
// on that of a typical core. It is 0 if the device list gives speeds, since these are
// only relative to each other, or if the layers' costs are 0.
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

// units returns the cores of a stage's device, or the device's name if it has none.
func (s StagePlan) units() (names []string) {
	if len(s.Device.Cores) == 0 {
		return []string{s.Device.Name}
	}
	for _, core := range s.Device.Cores {
		names = append(names, fmt.Sprint(core))
	}
	return names
}

// Slowest returns the index of the stage with the most Seconds, which limits the
// throughput.
func (p *Plan) Slowest() int {
	slowest := 0
	for i, s := range p.Stages {
		if s.Seconds > p.Stages[slowest].Seconds {
			slowest = i
		}
	}
	return slowest
}
