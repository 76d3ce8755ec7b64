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
	"github.com/leat-dev/leat/stage"
)

// contender is one way of writing the same stories: a placement of the model, and
// whether all stories are written at once or one after the other.
type contender struct {
	plan     *generate.Plan
	engine   *generate.Engine // while it runs
	where    string
	oneByOne bool
	kind     device.Kind // of all its devices; 0 where they differ

	speeds []float64     // tokens a second, one a sample
	wall   time.Duration // of all samples
	work   []stage.Stats // in it, one a stage, of which busy, batches and rows are counted
}

const (
	sampleTime  = 300 * time.Millisecond // the least that a sample takes
	sampleCount = 3                      // of each contender; the median counts
	sampleUntil = 3 * time.Second        // no further ones are begun after it
)

func newContender(p *generate.Plan) *contender {
	c := &contender{plan: p, where: whereOf(p.Stages), kind: p.Stages[0].Device.Kind, work: make([]stage.Stats, len(p.Stages))}
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
	replicas := time.Duration(len(c.plan.Stages[stage].Each()))
	return min(1, float64(c.work[stage].Busy/replicas)/float64(max(1, c.wall)))
}

// rows is the mean number of rows in a batch.
func (c *contender) rows() float64 {
	rows, batches := int64(0), int64(0)
	for _, w := range c.work {
		rows, batches = rows+w.Rows, batches+w.Batches
	}
	return float64(rows) / float64(max(1, batches))
}

// cost is how long a row takes cores, or GPUs, in all stages together.
func (c *contender) cost() time.Duration {
	total := time.Duration(0)
	for i, w := range c.work {
		total += w.Busy * time.Duration(max(1, len(c.plan.Stages[i].Device.Cores)))
	}
	return total / time.Duration(max(1, c.work[0].Rows))
}

// how is in which order the stories are written.
func (c *contender) how() string {
	if c.oneByOne {
		return "one by one"
	}
	return "all at once"
}

// short is what tells a contender from the others: how the pipeline writes, or
// where the others do.
func (c *contender) short(pipeline bool) string {
	if pipeline || c.oneByOne {
		return c.how()
	}
	var names []string
	for _, s := range c.plan.Stages {
		names = append(names, s.Devices())
	}
	return join(names)
}

// label names the contender among the others.
func (c *contender) label() string {
	if c.oneByOne {
		return c.where + " with one story after the other"
	}
	return c.where
}

// comparison is the pipeline beside other placements of the same model.
type comparison struct {
	contenders []*contender // the pipeline first
	requests   []generate.Request
	want       []generate.Result // what the pipeline wrote
	least      time.Duration     // that a sample takes
	load       coreLoad          // of the pipeline's cores
	done       bool
}

// newComparison compares an engine with itself, when it writes one story after the
// other, and with whatever is added.
func newComparison(e *generate.Engine, requests []generate.Request) comparison {
	self, serial := newContender(e.Plan()), newContender(e.Plan())
	self.engine, serial.engine, serial.oneByOne = e, e, true
	m := comparison{contenders: []*contender{self, serial}, requests: requests, least: sampleTime}
	for _, s := range e.Plan().Stages {
		for _, r := range s.Each() {
			m.load.cores = append(m.load.cores, r.Device.Cores...)
		}
	}
	slices.Sort(m.load.cores)
	m.load.cores = slices.Compact(m.load.cores)
	return m
}

// add adds a placement, unless it is there already.
func (m *comparison) add(c *contender) {
	if !slices.ContainsFunc(m.contenders, func(o *contender) bool { return o.where == c.where }) {
		m.contenders = append(m.contenders, c)
	}
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
	write := tell
	if c.oneByOne {
		write = tellOneByOne
	}
	stories, err := write(ctx, c.engine, m.requests, nil)
	if err != nil {
		return 0, err
	}
	if err := sameTexts(m.want, stories); err != nil && m.alike(c) {
		return 0, fmt.Errorf("%s: %w, though the same requests give the same tokens on any number of stages: this is a fault in Leat, please report it", c.label(), err)
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
	before := c.engine.Stats().Stages
	load, known := m.load.begin()
	began, written := time.Now(), 0
	for rounds := 0; rounds == 0 || time.Since(began) < m.least; rounds++ {
		n, err := m.check(ctx, c)
		if err != nil {
			return err
		}
		written += n
	}
	took := time.Since(began)
	m.load.end(load, known)
	c.speeds = append(c.speeds, float64(written)/took.Seconds())
	c.wall += took
	for i, s := range c.engine.Stats().Stages {
		w := &c.work[i]
		w.Busy += s.Busy - before[i].Busy
		w.Batches += s.Batches - before[i].Batches
		w.Rows += s.Rows - before[i].Rows
	}
	return nil
}

// same says whether all contenders are known to write the very same texts.
func (m *comparison) same() bool {
	return m.done && !slices.ContainsFunc(m.contenders, func(c *contender) bool { return !m.alike(c) })
}

// standing is how one contender does.
type standing struct {
	how   string
	where string
	short string  // what tells it from the others where there is little room
	tps   float64 // tokens a second; 0 while not measured
	ratio float64 // how many times as fast the pipeline is; 0 while not known
}

// standings is how the contenders do, the pipeline first.
func (m *comparison) standings() []standing {
	all := make([]standing, len(m.contenders))
	for i, c := range m.contenders {
		all[i] = standing{how: c.how(), where: c.where, short: c.short(i == 0), tps: c.speed()}
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
