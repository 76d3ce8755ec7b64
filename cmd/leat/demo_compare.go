package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// contender is one placement of the model, measured on the same stories as the
// others.
type contender struct {
	plan   *generate.Plan
	engine *generate.Engine // while it runs
	where  string
	kind   device.Kind // of all its devices; 0 where they differ

	speeds []float64       // tokens a second, one a sample
	wall   time.Duration   // of all samples
	busy   []time.Duration // in it, one a stage
}

const (
	sampleTime  = 300 * time.Millisecond // the least that a sample takes
	sampleCount = 3                      // of each contender; the median counts
	sampleUntil = 3 * time.Second        // no further ones are begun after it
)

func newContender(p *generate.Plan) *contender {
	c := &contender{plan: p, where: whereOf(p.Stages), kind: p.Stages[0].Device.Kind, busy: make([]time.Duration, len(p.Stages))}
	for _, s := range p.Stages {
		if s.Device.Kind != c.kind {
			c.kind = 0
		}
	}
	return c
}

// whereOf is the stages and their devices: "2 stages on cpu:0 → cpu:1".
func whereOf(stages []pipeline.StagePlan) string {
	var names []string
	for _, s := range stages {
		names = append(names, s.Devices())
	}
	return counted(len(stages), "stage") + " on " + strings.Join(names, " → ")
}

// speed is the median of the samples, 0 before the first.
func (c *contender) speed() float64 { return median(c.speeds) }

// share is how busy a stage was while it was measured, 0 to 1.
func (c *contender) share(stage int) float64 {
	return min(1, float64(c.busy[stage])/float64(max(1, c.wall)))
}

// comparison is the pipeline beside other placements of the same model.
type comparison struct {
	contenders []*contender // the pipeline first
	requests   []generate.Request
	want       []generate.Result // what the pipeline wrote
	least      time.Duration     // that a sample takes
	done       bool
}

// start loads the contenders that don't run yet, and returns what ends them.
func (m *comparison) start(ctx context.Context) (stop func() error, err error) {
	var started []*contender
	stop = func() error {
		var errs []error
		for _, c := range started {
			errs = append(errs, c.engine.Close())
			c.engine = nil
		}
		return errors.Join(errs...)
	}
	for _, c := range m.contenders {
		if c.engine != nil {
			continue
		}
		if c.engine, err = c.plan.Start(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("comparing with %s: %w", c.where, err), stop())
		}
		started = append(started, c)
	}
	return stop, nil
}

// run measures. The contenders take turns, so that whatever else the machine
// does meanwhile hits them alike. report is called after each sample.
func (m *comparison) run(ctx context.Context, report func([]standing)) (err error) {
	stop, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if failed := stop(); err == nil {
			err = failed
		}
	}()
	for _, c := range m.contenders { // the first time is for warming up
		if _, err := m.check(ctx, c); err != nil {
			return err
		}
	}
	began := time.Now()
	for turn := 0; turn < sampleCount && (turn == 0 || time.Since(began) < sampleUntil); turn++ {
		for _, c := range m.contenders {
			if err := m.sample(ctx, c); err != nil {
				return err
			}
			report(m.standings())
		}
	}
	m.done = true
	return nil
}

// check has a contender write the stories once and compares them with those
// wanted, token for token, where its devices promise the same.
func (m *comparison) check(ctx context.Context, c *contender) (written int, err error) {
	stories, err := tell(ctx, c.engine, m.requests, nil)
	if err != nil {
		return 0, err
	}
	if err := sameTexts(m.want, stories); err != nil && m.alike(c) {
		return 0, fmt.Errorf("%s: %w, though the same requests give the same tokens on any number of stages: this is a fault in Leat, please report it", c.where, err)
	}
	return tokensOf(stories), nil
}

// alike says whether a contender's devices and the pipeline's are all of one
// kind, which must give the same tokens.
func (m *comparison) alike(c *contender) bool {
	return c.kind != 0 && c.kind == m.contenders[0].kind
}

// sample measures a contender once: it writes the stories again and again until
// enough time has passed.
func (m *comparison) sample(ctx context.Context, c *contender) error {
	before := c.engine.Stats()
	began, written := time.Now(), 0
	for rounds := 0; rounds == 0 || time.Since(began) < m.least; rounds++ {
		n, err := m.check(ctx, c)
		if err != nil {
			return err
		}
		written += n
	}
	took := time.Since(began)
	c.speeds = append(c.speeds, float64(written)/took.Seconds())
	c.wall += took
	for i, s := range c.engine.Stats() {
		c.busy[i] += (s.Busy - before[i].Busy) / time.Duration(len(s.Each()))
	}
	return nil
}

// same says whether all contenders are known to write the very same texts.
func (m *comparison) same() bool {
	return m.done && !slices.ContainsFunc(m.contenders, func(c *contender) bool { return !m.alike(c) })
}

// standing is how one contender does.
type standing struct {
	where string
	tps   float64 // tokens a second; 0 while not measured
	ratio float64 // how many times as fast the pipeline is; 0 while not known
}

// standings is how the contenders do, the pipeline first.
func (m *comparison) standings() []standing {
	all := make([]standing, len(m.contenders))
	for i, c := range m.contenders {
		all[i] = standing{where: c.where, tps: c.speed()}
		if all[i].tps > 0 {
			all[i].ratio = all[0].tps / all[i].tps
		}
	}
	return all
}

// rivals are the devices that the pipeline is compared with, each as one stage:
// the first of its own, and all cores.
func rivals(p *generate.Plan) []string {
	devices := []string{p.Stages[0].Device.Name}
	for _, s := range p.Stages {
		if s.Device.Kind == device.CPU {
			return append(devices, device.CPU.String())
		}
	}
	return devices
}
