package main

import (
	"context"
	"sync"
	"time"

	"github.com/leat-dev/leat/pipeline/generate"
)

// board is what the pipeline has done so far: the work writes on it, the
// drawing reads it.
type board struct {
	mu    sync.Mutex
	now   progress
	steps []storyStep
}

// progress is a snapshot of a board.
type progress struct {
	rounds, tokens int           // finished and written in the rounds
	elapsed        time.Duration // since the first round began, at the last round's end
	took           time.Duration // by round 0; 0 while it runs
	measuring      bool          // the rounds are over
	standings      []standing
}

// storyStep is one step of a story of round 0, kept so that it can be drawn
// more slowly than it was written.
type storyStep struct {
	at    time.Duration // since the round began
	story int
	text  string
	last  bool
}

func newBoard(s []standing) *board { return &board{now: progress{standings: s}} }

// speed is the tokens a second in the rounds so far.
func (p progress) speed() float64 { return float64(p.tokens) / max(p.elapsed.Seconds(), 1e-9) }

// read returns what stands there. The steps only grow: those returned stay.
func (b *board) read() (progress, []storyStep) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.steps
}

// rounds has round after round of a demo written until its time has passed, at
// least one.
func (b *board) rounds(ctx context.Context, d *demo) error {
	began := time.Now()
	err := d.tell(ctx, func(story int, t generate.Token, _ generate.Result) {
		b.step(storyStep{time.Since(began), story, t.Text, t.Finish != ""})
	})
	stories := d.stories
	for n := 1; err == nil; n++ {
		elapsed := time.Since(began)
		b.round(stories, elapsed)
		if elapsed >= d.writing {
			break
		}
		stories, err = tell(ctx, d.engine, roundOf(n, d.like), nil)
	}
	return err
}

func (b *board) step(s storyStep) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = append(b.steps, s)
}

func (b *board) round(stories []generate.Result, elapsed time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.rounds == 0 {
		b.now.took = elapsed
	}
	b.now.rounds++
	b.now.tokens += tokensOf(stories)
	b.now.elapsed = elapsed
}

// measure says that the rounds are over.
func (b *board) measure() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.measuring = true
}

// compare publishes what has been measured so far.
func (b *board) compare(s []standing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.standings = s
}
