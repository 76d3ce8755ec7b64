package main

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/leat-dev/leat/pipeline"
)

const (
	frameTime   = 50 * time.Millisecond  // between two pictures
	restTime    = 250 * time.Millisecond // the same while measuring: drawing takes the cores' time
	meterTime   = 100 * time.Millisecond // over which a stage's load is measured
	writingTime = 3 * time.Second        // rounds are begun for so long
	replayTime  = 2500 * time.Millisecond
	replayWait  = 500 * time.Millisecond
	trailLength = 128 // loads remembered
)

// liveView draws a board and the stages' loads in a terminal. It is a Bubble Tea
// model: Update takes what happens, View draws.
type liveView struct {
	board *board
	stats func() []pipeline.StageStats
	cut   func() *excerpt // of the record of round 0
	typed bool            // keys can be read

	width, height int
	began, last   time.Time // the first and the latest tick
	now           progress
	loads         []stageLoad
	replay        replay
	motion        motion
	ended         ending
}

// ending is how the view ended.
type ending int

const (
	goingOn ending = iota
	finished
	quitted
	interrupted
)

type (
	tickMsg     time.Time
	finishedMsg struct{} // the work is done
)

// stageLoad is one stage's load.
type stageLoad struct {
	stage pipeline.StageStats
	since time.Time // of the latest load
	trail []float64 // loads, the latest last, each 0 to 1
	// Since the start, until measuring began.
	share   float64 // that it was busy
	bubbles float64 // that it had no batch while others had
}

func (m *stageLoad) load() float64 {
	if len(m.trail) == 0 {
		return 0
	}
	return m.trail[len(m.trail)-1]
}

// read takes the stage's new numbers.
func (m *stageLoad) read(s pipeline.StageStats, at time.Time) {
	if span := at.Sub(m.since); !m.since.IsZero() && span > 0 {
		load := min(1, float64(s.Busy-m.stage.Busy)/float64(span)/float64(len(s.Each())))
		m.trail = append(m.trail[max(0, len(m.trail)-trailLength+1):], load)
	}
	m.stage, m.since = s, at
}

// replay draws round 0 at a pace that a person can follow: as it comes where a
// round takes long, otherwise, once it is written, in slow motion.
type replay struct {
	live    bool          // it is drawn as it comes
	slower  float64       // otherwise, how many times; 0 while it isn't written
	at      time.Duration // of the round's time
	next    int           // of its steps
	stories []replayed
}

type replayed struct {
	text string
	last bool // it is told to its end
}

// advance draws what there is to see after a further span of time.
func (r *replay) advance(p progress, steps []storyStep, running, span time.Duration) {
	switch {
	case r.live:
		r.at = running
	case r.slower > 0:
		r.at += time.Duration(float64(span) / r.slower)
	case p.took > 0 && len(steps) > 0:
		r.at = steps[0].at
		r.slower = max(1, float64(replayTime)/float64(max(1, p.took-r.at)))
	case running > replayWait:
		r.live = true
	}
	for ; r.next < len(steps) && (r.live || steps[r.next].at <= r.at); r.next++ {
		s := &r.stories[steps[r.next].story]
		s.text += steps[r.next].text
		s.last = steps[r.next].last
	}
}

func newLiveView(b *board, stats func() []pipeline.StageStats, typed bool) *liveView {
	v := &liveView{board: b, stats: stats, cut: newRecorder().cut, typed: typed}
	v.replay.stories = make([]replayed, len(openings))
	for i, text := range openings {
		v.replay.stories[i].text = text
	}
	for _, s := range stats() {
		v.loads = append(v.loads, stageLoad{stage: s})
	}
	return v
}

// Init implements tea.Model.
func (v *liveView) Init() tea.Cmd { return tick(0) }

func tick(after time.Duration) tea.Cmd {
	return tea.Tick(after, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update implements tea.Model.
func (v *liveView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.width, v.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc":
			v.ended = quitted
			return v, tea.Quit
		case "ctrl+c":
			v.ended = interrupted
			return v, tea.Quit
		}
	case finishedMsg:
		v.ended = finished
		return v, tea.Quit
	case tickMsg:
		v.tick(time.Time(msg))
		if v.now.measuring {
			return v, tick(restTime)
		}
		return v, tick(frameTime)
	}
	return v, nil
}

// tick reads how far the work is.
func (v *liveView) tick(at time.Time) {
	if v.began.IsZero() {
		v.began, v.last = at, at
	}
	var steps []storyStep
	v.now, steps = v.board.read()
	v.replay.advance(v.now, steps, at.Sub(v.began), at.Sub(v.last))
	v.motion.advance(v.cut, at.Sub(v.last))
	v.last = at
	if len(v.loads) > 0 && at.Sub(v.loads[0].since) < meterTime {
		return
	}
	for i, s := range v.stats() {
		v.loads[i].read(s, at)
		if !v.now.measuring {
			v.loads[i].share = s.Share
			v.loads[i].bubbles = s.Share * float64(s.Bubbles) / float64(max(1, s.Busy))
		}
	}
}

// errInterrupted says that the user pressed Ctrl+C, which a terminal in
// raw mode doesn't turn into a signal.
var errInterrupted = errors.New("interrupted")

// watch runs work and draws it until it is done, or until the user ends
// it, which ends the work's context. It returns the work's error. in may be nil.
func watch(ctx context.Context, v *liveView, in io.Reader, out io.Writer, work func(context.Context) error) error {
	p := tea.NewProgram(v, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(in), tea.WithOutput(out))
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- work(working)
		p.Send(finishedMsg{})
	}()
	_, failed := p.Run()
	stop()
	err := <-done
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case v.ended != finished && errors.Is(err, context.Canceled):
		err = nil // it was told to stop
	}
	if v.ended == interrupted {
		failed = errInterrupted
	}
	return errors.Join(err, failed)
}
