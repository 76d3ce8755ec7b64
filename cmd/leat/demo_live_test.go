package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline"
)

// stageStats is n stages, each busy for so long.
func stageStats(n int, busy time.Duration) []pipeline.StageStats {
	all := make([]pipeline.StageStats, n)
	for i := range all {
		all[i].Device = device.Info{Name: fmt.Sprintf("cpu:%d", i)}
		all[i].Layers = fmt.Sprintf("blocks %d-%d", 2*i, 2*i+1)
		all[i].Weights = 3 << 20
		all[i].Busy, all[i].Bubbles = busy, busy/5
		all[i].Batches, all[i].Rows = 10, 25
		all[i].Share = 0.25
	}
	return all
}

// aView is a view of n stages that has ticked for a second, each stage half
// busy, with a story under way and, if so asked, measuring.
func aView(n int, measuring bool) *liveView {
	b := newBoard([]standing{{how: "all at once", where: "2 stages on cpu:0 → cpu:1"}, {how: "all at once", where: "1 stage on cpu:0"}})
	b.now.rounds, b.now.tokens, b.now.elapsed, b.now.took = 12, 12345, time.Second, 50*time.Millisecond
	for i := range len(openings) * 100 {
		b.step(storyStep{time.Duration(i) * 50 * time.Microsecond, i % len(openings), fmt.Sprintf(" wörd%d", i), i >= 792})
	}
	if measuring {
		b.measure()
		b.compare([]standing{
			{"all at once", "2 stages on cpu:0 → cpu:1", "all at once", 12000, 1},
			{"one by one", "2 stages on cpu:0 → cpu:1", "one by one", 4000, 3},
			{"all at once", "1 stage on cpu:0", "cpu:0", 8000, 1.5},
		})
	}
	var busy time.Duration
	v := newLiveView(b, func() []pipeline.StageStats { return stageStats(n, busy) }, true)
	start := time.Unix(1000, 0)
	for at := time.Duration(0); at <= time.Second; at += frameTime {
		busy = at / 2
		v.Update(tickMsg(start.Add(at)))
	}
	return v
}

func TestViewFitsItsWindow(t *testing.T) {
	for _, stages := range []int{1, 2, 3, 7, 40} {
		for _, measuring := range []bool{false, true} {
			v := aView(stages, measuring)
			for _, width := range []int{0, 1, 5, 11, 12, 20, 39, 40, 56, 60, 80, 120, 200, 400} {
				for _, height := range []int{0, 1, 3, 4, 5, 9, 12, 19, 20, 24, 30, 40, 100} {
					v.Update(tea.WindowSizeMsg{Width: width, Height: height})
					picture := v.View().Content
					where := fmt.Sprintf("%d stages at %dx%d", stages, width, height)
					if width == 0 || height == 0 {
						assert.Empty(t, picture, where)
						continue
					}
					lines := strings.Split(picture, "\n")
					require.LessOrEqual(t, len(lines), height, where)
					for _, line := range lines {
						require.LessOrEqual(t, ansi.StringWidth(line), width, where)
					}
				}
			}
		}
	}
}

func TestViewFillsItsWindow(t *testing.T) {
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 120, Height: 40}, {Width: 40, Height: 12}, {Width: 200, Height: 60}} {
		v := aView(2, false)
		v.Update(size)
		lines := strings.Split(ansi.Strip(v.View().Content), "\n")
		assert.Len(t, lines, size.Height)
		assert.Contains(t, lines[size.Height-1], "q ends", "%v", size)
	}
}

func TestViewShowsWhatThePipelineDoes(t *testing.T) {
	v := aView(2, false)
	v.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	assert.Contains(t, ansi.Strip(v.View().Content), "2.5 rows a batch · 5% bubbles")
	v = aView(2, true)
	v.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	picture := ansi.Strip(v.View().Content)
	for _, want := range []string{
		"leat demo", "12 rounds · 96 stories · 12,345 tokens/s",
		"2.5 rows a batch",
		"cpu:0", "cpu:1", "blocks 0-1", "blocks 2-3", "3.0 MiB", "━▶", "50%", "▄",
		"drawn 50 times slower than it was written", "wörd",
		"2 stages on cpu:0 → cpu:1", "12,000", "8,000", "1.50×", "measuring",
		"one by one", "3.00×", "▂▅▇ load until now · ██░ load now",
	} {
		assert.Contains(t, picture, want)
	}
	for i := range openings {
		assert.Regexp(t, fmt.Sprintf(`(?m)(^|  )%d .`, i+1), picture, "story %d has its place", i+1)
	}
}

func TestStagesTooManyForBoxesAreLines(t *testing.T) {
	v := aView(7, false)
	v.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	picture := ansi.Strip(v.View().Content)
	assert.NotContains(t, picture, "╭")
	for i := range 7 {
		assert.Contains(t, picture, fmt.Sprintf("cpu:%d  blocks %d-%d", i, 2*i, 2*i+1))
		assert.Contains(t, picture, "50% load now")
	}
	v.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	assert.Contains(t, ansi.Strip(v.View().Content), "cpu:5 50%  cpu:6 50%", "the last ones share a line")
}

func TestStageLoads(t *testing.T) {
	v := aView(1, false)
	assert.Len(t, v.loads[0].trail, 10, "ten a second")
	for _, l := range v.loads[0].trail {
		assert.InDelta(t, 0.5, l, 1e-9)
	}
	assert.Equal(t, 0.25, v.loads[0].share)
	at := time.Unix(2000, 0)
	for range 3 * trailLength {
		at = at.Add(meterTime)
		v.Update(tickMsg(at))
	}
	assert.Len(t, v.loads[0].trail, trailLength, "old ones are forgotten")
	assert.Zero(t, v.loads[0].load(), "it has done nothing more")
}

func TestReplayIsSlowMotionOfAFastRound(t *testing.T) {
	r := replay{stories: make([]replayed, 1)}
	steps := []storyStep{{10 * time.Millisecond, 0, "a", false}, {20 * time.Millisecond, 0, "b", false}, {60 * time.Millisecond, 0, "c", true}}
	r.advance(progress{}, steps[:2], 0, 0)
	assert.Empty(t, r.stories[0].text, "nothing is drawn until the pace is known")
	p := progress{took: 60 * time.Millisecond}
	r.advance(p, steps, 100*time.Millisecond, 0)
	assert.Equal(t, 50.0, r.slower)
	assert.Equal(t, "a", r.stories[0].text, "it begins with the first token")
	r.advance(p, steps, time.Second, 499*time.Millisecond)
	assert.Equal(t, "a", r.stories[0].text)
	r.advance(p, steps, time.Second, time.Millisecond)
	assert.Equal(t, replayed{"ab", false}, r.stories[0])
	r.advance(p, steps, 3*time.Second, replayTime)
	assert.Equal(t, replayed{"abc", true}, r.stories[0])
}

func TestReplayDrawsASlowRoundAsItComes(t *testing.T) {
	r := replay{stories: make([]replayed, 2)}
	steps := []storyStep{{time.Millisecond, 1, "x", false}, {2 * time.Second, 0, "y", true}}
	r.advance(progress{}, steps[:1], replayWait, 0)
	assert.False(t, r.live)
	r.advance(progress{}, steps[:1], replayWait+1, 0)
	r.advance(progress{}, steps[:1], replayWait+2, 0)
	assert.Equal(t, []replayed{{"", false}, {"x", false}}, r.stories)
	r.advance(progress{took: 2 * time.Second}, steps, 3*time.Second, 0)
	assert.Equal(t, []replayed{{"y", true}, {"x", false}}, r.stories)
	assert.Zero(t, r.slower)
}

func TestShownHasNothingThatATerminalActsOn(t *testing.T) {
	assert.Equal(t, "one two [31mred é", shown(" one\n\ttwo \x1b[31mred\x07 é "))
}

// typing is what somebody types, who then keeps still until the test ends.
func typing(t *testing.T, keys string) io.Reader {
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, keys) }()
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r
}

func TestWatchEnds(t *testing.T) {
	leaks(t)
	untilTold := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	view := func() *liveView {
		return newLiveView(newBoard(nil), func() []pipeline.StageStats { return stageStats(2, 0) }, true)
	}
	t.Run("when the work is done", func(t *testing.T) {
		v := view()
		assert.NoError(t, watch(t.Context(), v, nil, io.Discard, func(context.Context) error { return nil }))
		assert.Equal(t, finished, v.ended)
	})
	t.Run("when the work fails", func(t *testing.T) {
		broken := errors.New("broken")
		assert.ErrorIs(t, watch(t.Context(), view(), nil, io.Discard, func(context.Context) error { return broken }), broken)
	})
	t.Run("by q", func(t *testing.T) {
		v := view()
		assert.NoError(t, watch(t.Context(), v, typing(t, "q"), io.Discard, untilTold))
		assert.Equal(t, quitted, v.ended)
	})
	t.Run("by Ctrl+C", func(t *testing.T) {
		assert.ErrorIs(t, watch(t.Context(), view(), typing(t, "\x03"), io.Discard, untilTold), errInterrupted)
	})
	t.Run("by a signal", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		err := watch(ctx, view(), nil, io.Discard, func(ctx context.Context) error { stop(); return untilTold(ctx) })
		assert.ErrorIs(t, err, errInterrupted)
	})
}

func TestLiveDemo(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0,cpu:0", 6)
	var out bytes.Buffer
	require.NoError(t, d.live(t.Context(), strings.NewReader(""), &out))
	text := ansi.Strip(out.String())
	assert.Contains(t, text, "2 stages share 1 core")
	for i, opening := range openings {
		assert.Contains(t, text, fmt.Sprintf("story %d: %s", i+1, opening))
	}
	assert.Contains(t, text, "wrote the very same texts, token for token")
}

func TestLiveDemoEndedEarlyTellsWhatIsKnown(t *testing.T) {
	leaks(t)
	d := aDemo(t, "cpu:0,cpu:0", 6)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	assert.ErrorIs(t, d.live(ctx, strings.NewReader(""), &out), errInterrupted)
	assert.Contains(t, out.String(), "Ended before anything was compared.")
	assert.NotContains(t, out.String(), "story 1")
}
