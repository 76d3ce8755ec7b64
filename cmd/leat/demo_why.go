package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/leat-dev/leat/device"
)

// evidence is what was measured of the pipeline and of one that it is compared
// with, from which reasons lists why the pipeline isn't ahead.
type evidence struct {
	stages int     // on cores
	cores  int     // that these stages have together
	others float64 // cores' worth of time that other programs took of these; negative: not known

	under      int           // batches that can be under way: as many as --inflight and --max-seqs allow
	names      []string      // of the stages' devices
	busy       []float64     // a stage's share of the time, 0 to 1
	turn       time.Duration // that a stage is busy with one batch, the mean
	rows       float64       // in a batch, the mean
	cost       time.Duration // that a row takes of cores, in all stages together
	speeds     []float64     // tokens a second, one a sample
	rivalRows  float64
	rivalCost  time.Duration
	rivalSpeed []float64
}

const (
	someOthers = 0.1 // of the cores: from here on, other programs count
	smallBatch = 0.8 // of the other's rows: below it, a batch is small
	dearRow    = 1.1 // times the other's cost: above it, a row is dear
	unequal    = 1.25
	idle       = 0.75 // of the time: below it, no stage is the limit
)

// reasons are sentences, the weightiest first and at least one.
func (e evidence) reasons() (why []string) {
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if 0 < e.cores && e.cores < e.stages {
		say("its %d stages have %s, so that they can't all work at the same time", e.stages, counted(e.cores, "core"))
	}
	if e.cores > 0 && e.others >= someOthers*float64(e.cores) {
		say("other programs took %.1f of its %s meanwhile", e.others, counted(e.cores, "core"))
	}
	if e.under < len(e.busy) {
		say("only %s can be under way, fewer than its %d stages", batchCount(e.under), len(e.busy))
	}
	if e.rows < smallBatch*e.rivalRows && float64(e.cost) > dearRow*float64(e.rivalCost) && e.rivalCost > 0 {
		say("its batches are small: with %.1f rows in place of %.1f, a row takes %s of a core in place of %s", e.rows, e.rivalRows, micros(e.cost), micros(e.rivalCost))
	}
	if len(e.busy) > 1 {
		most, least := slices.Max(e.busy), slices.Min(e.busy)
		switch {
		case most < idle:
			say("no stage was busy for more than %.0f%% of the time: the rest went into handing on batches, each of which keeps a stage for %s", 100*most, micros(e.turn))
		case most >= unequal*least:
			longest, shortest := slices.Index(e.busy, most), slices.Index(e.busy, least)
			say("its stages are not equally long: stage %d (%s) was busy for %.0f%% of the time, stage %d (%s) for %.0f%%", longest, e.names[longest], 100*most, shortest, e.names[shortest], 100*least)
		}
	}
	if len(e.speeds) > 1 && len(e.rivalSpeed) > 1 && slices.Max(e.speeds) > slices.Min(e.rivalSpeed) {
		say("it is too close to tell: its samples are %s tokens/s, the other's %s", spread(e.speeds), spread(e.rivalSpeed))
	}
	if why == nil {
		say("a row takes %s of its cores' time, and %s of the other's", micros(e.cost), micros(e.rivalCost))
	}
	return why
}

// micros is a duration with two digits or more.
func micros(d time.Duration) string {
	return fmt.Sprintf("%s µs", humanize.Comma(int64(math.Round(float64(d)/float64(time.Microsecond)))))
}

// spread is from the least to the most of some speeds.
func spread(speeds []float64) string {
	return humanize.Comma(int64(slices.Min(speeds))) + " to " + humanize.Comma(int64(slices.Max(speeds)))
}

// evidence is what is known of a contender beside the pipeline.
func (m *comparison) evidence(rival *contender) evidence {
	self := m.contenders[0]
	e := evidence{
		cores:      coresOf(self.plan),
		under:      min(self.plan.InFlight(), self.plan.MaxSeqs),
		others:     m.load.others(),
		rows:       self.rows(),
		cost:       self.cost(),
		speeds:     self.speeds,
		rivalRows:  rival.rows(),
		rivalCost:  rival.cost(),
		rivalSpeed: rival.speeds,
	}
	for i, s := range self.plan.Stages {
		if s.Device.Kind == device.CPU {
			e.stages++
		}
		e.names = append(e.names, s.Devices())
		e.busy = append(e.busy, self.share(i))
	}
	busy, batches := time.Duration(0), int64(0)
	for i := range self.work {
		busy += self.work[i].Busy
		batches += self.work[i].Batches
	}
	e.turn = busy / time.Duration(max(1, batches))
	return e
}

// why is a sentence with the reasons for which the pipeline is not ahead, "" where
// it is ahead of all that was measured.
func (m *comparison) why() string {
	var ahead, reasons []string
	for i, s := range m.standings() {
		if i == 0 || s.tps == 0 || decimals(s.ratio, 2) >= 1 {
			continue
		}
		ahead = append(ahead, m.contenders[i].label())
		for _, reason := range m.evidence(m.contenders[i]).reasons() {
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	if ahead == nil {
		return ""
	}
	return fmt.Sprintf("Why the pipeline is not ahead of %s: %s.", strings.Join(ahead, " and "), strings.Join(reasons, "; "))
}
