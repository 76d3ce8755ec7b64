package main

import (
	"context"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/stage"
)

// passing is a record of n batches through two stages: each takes ten units in
// each, waits two units before the second, and batch 3 takes another ten there.
func passing(n int) (visits []visit) {
	const unit = 10 * time.Microsecond
	at := time.Duration(0)
	for b := range n {
		second := 10 * unit
		if b == 3 {
			second += 10 * unit
		}
		visits = append(visits,
			visit{uint64(b + 1), 0, 4, at, at + 10*unit},
			visit{uint64(b + 1), 1, 4, at + 12*unit, at + 12*unit + second})
		at += 2*unit + second
	}
	return visits
}

func TestExcerptIsOfMedianLength(t *testing.T) {
	e := newExcerpt(passing(60), 2)
	require.NotNil(t, e)
	assert.Len(t, e.batches(), excerptBatches)
	assert.Greater(t, e.first, uint64(20), "after the first third")
	assert.Equal(t, 11*120*time.Microsecond+220*time.Microsecond, e.length)
	assert.Equal(t, 100*time.Microsecond, e.visit)
	assert.Zero(t, e.stages[0][0].from)
	assert.Len(t, e.of(e.first), 2)
}

func TestExcerptOfFewBatches(t *testing.T) {
	assert.Nil(t, newExcerpt(nil, 2))
	assert.Nil(t, newExcerpt([]visit{{1, 0, 1, 0, 5}}, 2), "no batch went through all stages")
	e := newExcerpt(passing(2), 2)
	assert.Equal(t, []uint64{1, 2}, e.batches())
	e = newExcerpt(append(passing(2), visit{9, 0, 1, 7, 8}), 2)
	assert.Equal(t, []uint64{1, 2}, e.batches(), "one that is still on its way isn't drawn")
}

func TestExcerptKnowsWhereBatchesAre(t *testing.T) {
	e := newExcerpt(passing(2), 2)
	at := func(micros int) time.Duration { return time.Duration(micros) * time.Microsecond }
	require.Len(t, e.present(0, at(50)), 1)
	assert.Empty(t, e.present(1, at(50)))
	assert.Empty(t, e.present(0, at(110)))
	assert.Equal(t, []uint64{1}, e.waiting(0, at(110)))
	assert.Empty(t, e.waiting(0, at(120)))
	assert.Equal(t, uint64(1), e.present(1, at(120))[0].batch)
	assert.Equal(t, uint64(2), e.present(0, at(120))[0].batch)
	assert.Equal(t, 6000.0, e.slower(600*time.Millisecond))
	assert.Equal(t, 1.0, e.slower(0), "never faster than it happened")
}

func TestTimeline(t *testing.T) {
	e := newExcerpt(passing(2), 2)
	assert.Equal(t, []string{
		"AAAAAAAAAA··BBBBBBBBBB············",
		"············AAAAAAAAAA··BBBBBBBBBB",
	}, e.timeline(34))
}

func TestRecorderKeepsTheFirstRoundAlone(t *testing.T) {
	r := newRecorder()
	work := func(batch uint64, stageNumber int, err error) {
		r.Worked(stage.Work{Batch: batch, Stage: stageNumber, Rows: 1, Received: time.Now(), Compute: time.Millisecond, Err: err})
	}
	work(1, 0, nil)
	assert.Empty(t, r.visits, "before the round")
	r.begin(1)
	work(2, 0, nil)
	work(3, 0, context.Canceled)
	assert.Len(t, r.visits, 1, "one that failed isn't drawn")
	assert.Nil(t, r.cut(), "too few yet")
	r.end()
	work(4, 0, nil)
	e := r.cut()
	require.NotNil(t, e)
	assert.Equal(t, []uint64{2}, e.batches())
	assert.Same(t, e, r.cut())
}

func TestRecorderIsBounded(t *testing.T) {
	r := newRecorder()
	r.begin(2)
	for range recordMost + 10 {
		r.Worked(stage.Work{})
	}
	assert.Len(t, r.visits, recordMost)
}

func TestBatchesTravel(t *testing.T) {
	e := newExcerpt(passing(2), 2)
	cut := func() *excerpt { return e }
	m := motion{}
	assert.Equal(t, "············", ansi.Strip(m.path(0, 12)), "nothing is there yet")
	m.advance(cut, time.Second)
	require.Equal(t, 6000.0, m.slower)
	assert.Equal(t, "[1]·········", ansi.Strip(m.path(0, 12)), "it begins at the beginning")
	m.advance(cut, 300*time.Millisecond)
	assert.Equal(t, "····[1]·····", ansi.Strip(m.path(0, 12)))
	assert.Equal(t, arrow, ansi.Strip(m.link(0)))
	m.advance(cut, 360*time.Millisecond)
	assert.Equal(t, "············", ansi.Strip(m.path(0, 12)))
	assert.Equal(t, "●▶", ansi.Strip(m.link(0)), "it waits for the next stage")
	m.advance(cut, 90*time.Millisecond)
	assert.Equal(t, "[1]·········", ansi.Strip(m.path(1, 12)))
	assert.Equal(t, "[2]·········", ansi.Strip(m.path(0, 12)))
	assert.Equal(t, "●···", ansi.Strip(m.path(0, 4)), "where there is little room")
	assert.Equal(t, "[1] a batch, 6,000× slower", m.legend())
	m.advance(cut, time.Hour)
	assert.Less(t, m.at, e.length, "it begins again")
}
