package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// config is what the options of a pipeline say.
type config struct {
	given []string // the names of the options

	devices   string          // a device list
	imagined  bool            // the devices are of another machine: the plan can't be opened
	placement string          // the path of a placement file
	placed    *placement.File // a placement that has been read; nil: none
	threads   int             // the most CPU threads; 0: as many as cores
	pack      Pack
	inFlight  int    // micro-batches in flight on each route; 0: as many as stages
	queue     []int  // the capacity of the link into each stage; the last one is that of all further links
	maxBatch  int    // the most rows in a micro-batch
	calibrate bool   // measure the speed of devices for which the list gives none
	ratesDir  string // the folder that keeps the measured speeds; "": none
	reserve   int64  // bytes to leave free on each device; negative: the default
	progress  func(loaded, total int64)

	input        int           // float32s in a row that the first layer reads; 0: it reads the header alone
	maxWait      time.Duration // for which a batch that isn't full waits for more rows
	backlog      int           // calls that may wait
	ahead        int           // rows that Map reads ahead; 0: as many as the batches in flight hold
	isolate      bool          // a batch that failed is computed again in halves
	failureLimit int           // consecutive failures after which a route is probed; 0: no limit

	log      *slog.Logger // nil: nothing is logged
	observer Observer     // nil: none

	state stage.Config // what the layers keep between batches, and the sizes of headers
}

func newConfig(options []Option) (config, error) {
	c := config{
		devices: "auto", pack: Balanced, queue: []int{1}, maxBatch: DefaultMaxBatch, reserve: -1,
		backlog: DefaultBacklog, failureLimit: DefaultFailureLimit, isolate: true,
	}
	for _, o := range options {
		if err := o(&c); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

// has reports whether the option of that name was given.
func (c *config) has(option string) bool { return slices.Contains(c.given, option) }

// conflicts are the options that decide what others would decide too.
var conflicts = []struct {
	option string
	others []string // have no effect beside it
	why    string
}{
	{"WithPlacement", []string{"WithPlacementFile", "WithImagined", "WithDevices", "WithPack", "WithCalibration"}, "the placement says which device each layer is on"},
	{"WithPlacementFile", []string{"WithImagined", "WithDevices", "WithPack", "WithCalibration"}, "the placement says which device each layer is on"},
	{"WithImagined", []string{"WithDevices", "WithThreads", "WithReserve", "WithCalibration"}, "its list says what the machine has"},
}

// check returns an error if an option has no effect because of another.
func (c *config) check() error {
	for _, of := range conflicts {
		for _, other := range of.others {
			if c.has(of.option) && c.has(other) {
				return fmt.Errorf("pipeline.%s has no effect beside pipeline.%s: %s", other, of.option, of.why)
			}
		}
	}
	if c.calibrate && c.pack == FirstFit {
		return errors.New("pipeline.WithCalibration has no effect beside pipeline.WithPack(pipeline.FirstFit): first-fit packing doesn't compare speeds")
	}
	return nil
}

// checkState returns an error if a state sets what options decide.
func checkState(s stage.Config) error {
	for _, of := range []struct {
		field, option string
		value         int
	}{
		{"MaxRows", "WithMaxBatch", s.MaxRows},
		{"InFlight", "WithInFlight", s.InFlight},
		{"Input", "WithInput", s.Input},
	} {
		if of.value != 0 {
			return fmt.Errorf("the state of a pipeline sets %s to %d, which has no effect: use pipeline.%s", of.field, of.value, of.option)
		}
	}
	return nil
}

// stage returns the configuration of a pipeline's stages, given the number of stages and
// of routes.
func (c config) stage(stages, routes int) (stage.Config, error) {
	s := c.state
	s.MaxRows, s.Input = c.maxBatch, c.input
	if s.MaxOutputs == 0 || s.MaxOutputs > s.MaxRows {
		s.MaxOutputs = s.MaxRows
	}
	s.Expect = max(1, s.Expect)
	if s.InFlight = c.inFlight; s.InFlight == 0 {
		s.InFlight = stages
	}
	if s.InFlight > limit/routes {
		return s, fmt.Errorf("%d batches in flight on each of %d routes: there may be at most %d in all", s.InFlight, routes, limit)
	}
	s.InFlight *= routes
	return s, nil
}

// depth returns the capacity of the link into a stage.
func (c config) depth(stage int) int { return c.queue[min(stage, len(c.queue)-1)] }

func (c config) logger() *slog.Logger {
	if c.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.log
}
