package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// ahead is evidence in which nothing stands out.
func ahead() evidence {
	return evidence{
		stages: 2, cores: 2, others: 0, under: 2,
		names: []string{"cpu:0", "cpu:1"}, busy: []float64{0.95, 0.9},
		turn: 50 * time.Microsecond, rows: 4, cost: 20 * time.Microsecond, speeds: []float64{90, 95},
		rivalRows: 4, rivalCost: 20 * time.Microsecond, rivalSpeed: []float64{100, 110},
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(e *evidence)
		want   []string
	}{
		{"nothing stands out", func(*evidence) {}, []string{"a row takes 20 µs of its cores' time, and 20 µs of the other's"}},
		{"fewer cores than stages", func(e *evidence) { e.stages = 3 }, []string{"its 3 stages have 2 cores, so that they can't all work at the same time"}},
		{"other programs", func(e *evidence) { e.others = 0.5 }, []string{"other programs took 0.5 of its 2 cores meanwhile"}},
		{"others not known", func(e *evidence) { e.others = -1; e.stages, e.cores = 0, 0 }, []string{"a row takes 20 µs of its cores' time, and 20 µs of the other's"}},
		{"one batch", func(e *evidence) { e.under = 1 }, []string{"only 1 batch can be under way, fewer than its 2 stages"}},
		{"small batches", func(e *evidence) { e.rivalRows, e.rivalCost = 8, 10*time.Microsecond }, []string{"its batches are small: with 4.0 rows in place of 8.0, a row takes 20 µs of a core in place of 10 µs"}},
		{"small, but no dearer", func(e *evidence) { e.rivalRows = 8 }, []string{"a row takes 20 µs of its cores' time, and 20 µs of the other's"}},
		{"idle", func(e *evidence) { e.busy = []float64{0.5, 0.4} }, []string{"no stage was busy for more than 50% of the time: the rest went into handing on batches, each of which keeps a stage for 50 µs"}},
		{"unequal", func(e *evidence) { e.busy[1] = 0.3 }, []string{"its stages are not equally long: stage 0 (cpu:0) was busy for 95% of the time, stage 1 (cpu:1) for 30%"}},
		{"too close", func(e *evidence) { e.speeds = []float64{90, 1050} }, []string{"it is too close to tell: its samples are 90 to 1,050 tokens/s, the other's 100 to 110"}},
		{"two at once", func(e *evidence) { e.stages, e.others = 3, 1.2 }, []string{
			"its 3 stages have 2 cores, so that they can't all work at the same time", "other programs took 1.2 of its 2 cores meanwhile"}},
	} {
		e := ahead()
		c.change(&e)
		assert.Equal(t, c.want, e.reasons(), c.name)
	}
}

// measured is a demo in which each contender has one sample of so many tokens a
// second.
func measured(t *testing.T, speeds ...float64) *demo {
	d := aDemo(t, "cpu:0,cpu:0", 1)
	for i, speed := range speeds {
		c := d.comparison.contenders[i]
		c.speeds, c.wall = []float64{speed}, time.Second
		for j := range c.work {
			c.work[j].Busy, c.work[j].Batches, c.work[j].Rows = time.Second*9/10, 100, 400
		}
	}
	return d
}

func TestWhyNamesAllThatAreAhead(t *testing.T) {
	assert.Empty(t, measured(t, 100, 50, 99).comparison.why())
	assert.Empty(t, measured(t, 100, 50, 100.4).comparison.why(), "which prints as 1.00 times as fast")
	assert.Empty(t, measured(t, 100).comparison.why(), "nothing else is measured yet")
	assert.Equal(t, "Why the pipeline is not ahead of 2 stages on cpu:0 → cpu:0 with one story after the other and 1 stage on cpu:0: its 2 stages have 1 core, so that they can't all work at the same time.",
		measured(t, 100, 120, 200).comparison.why())
}

func TestLoadOfOthers(t *testing.T) {
	l := coreLoad{}
	_, ok := l.begin()
	assert.False(t, ok, "no cores")
	assert.Negative(t, l.others())
	l = coreLoad{cores: []int{0}}
	before, ok := l.begin()
	l.end(before, ok)
	if ok {
		assert.GreaterOrEqual(t, l.others(), 0.0)
	} else {
		assert.Negative(t, l.others())
	}
	l = coreLoad{known: true, spans: 2 * time.Second, taken: 3 * time.Second}
	assert.Equal(t, 1.5, l.others())
}
