package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline"
)

// timed is a stage that takes some seconds on a device.
func timed(name string, seconds float64) pipeline.StagePlan {
	return pipeline.StagePlan{Device: device.Info{Name: name}, Seconds: seconds}
}

// drawnRound is the rows of a timeline, 12 columns wide.
func drawnRound(t timeline) string {
	var rows []string
	for _, r := range t.rows {
		rows = append(rows, fmt.Sprintf("%s %.0f%%", ansi.Strip(r.draw(12)), 100*r.busy))
	}
	return strings.Join(rows, "\n")
}

func TestTimelineOfARound(t *testing.T) {
	for _, c := range []struct {
		name     string
		stages   []pipeline.StagePlan
		inFlight int
		want     string
	}{
		{"equal stages never wait", []pipeline.StagePlan{timed("a", 1), timed("b", 1)}, 2, "1━━━━━2━━━━━ 100%\n2━━━━━1━━━━━ 100%"},
		{"one batch in flight leaves one waiting", []pipeline.StagePlan{timed("a", 1), timed("b", 1)}, 1, "1━━━━━······ 50%\n······1━━━━━ 50%"},
		{"the slower one sets the pace", []pipeline.StagePlan{timed("a", 1), timed("b", 3)}, 2, "1━····2━···· 33%\n2━━━━━1━━━━━ 100%"},
		{"stages on one device take turns", []pipeline.StagePlan{timed("a", 1), timed("a", 1)}, 2, "1━━━━━······ 50%\n······1━━━━━ 50%"},
		{"a stage that takes no time", []pipeline.StagePlan{timed("a", 1), timed("b", 0)}, 2, "1━━━━━━━━━━━ 100%\n············ 0%"},
		{"one stage", []pipeline.StagePlan{timed("a", 1)}, 1, "1━━━━━━━━━━━ 100%"},
		{"nothing takes time", []pipeline.StagePlan{timed("a", 0)}, 1, ""},
	} {
		got := newTimeline(c.stages, c.inFlight, 1)
		assert.Equal(t, c.want, drawnRound(got), c.name)
		for _, r := range got.rows {
			for i := 1; i < len(r.stays); i++ {
				assert.LessOrEqual(t, r.stays[i-1].to, r.stays[i].from+1e-9, "%s: one at a time", c.name)
			}
		}
	}
	slower := newTimeline([]pipeline.StagePlan{timed("a", 1), timed("b", 3)}, 2, 1)
	require.Len(t, slower.rows, 2)
	assert.InDelta(t, 1./3, slower.rows[0].busy, 1e-9)
	assert.InDelta(t, 1, slower.rows[1].busy, 1e-9)

	turns := newTimeline([]pipeline.StagePlan{timed("a", 1), timed("a", 1)}, 2, 1)
	require.Len(t, turns.rows, 2)
	for _, x := range turns.rows[0].stays {
		for _, y := range turns.rows[1].stays {
			assert.True(t, x.to <= y.from+1e-9 || y.to <= x.from+1e-9, "never both at once")
		}
	}
}

// Of replicas each takes its routes' batches. However many stages and batches there are,
// the round ends.
func TestTimelineOfManyStages(t *testing.T) {
	var many []pipeline.StagePlan
	for i := range mostFollowed {
		many = append(many, timed(fmt.Sprint("cuda:", i%7), float64(1+i%3)))
	}
	got := newTimeline(many, 1000, 1)
	assert.Len(t, got.rows, mostFollowed)
	assert.Equal(t, 2*mostFollowed, got.batches)
	assert.Equal(t, 1000-2*mostFollowed, got.waiting)
	assert.Empty(t, newTimeline(append(many, timed("a", 1)), 3, 1).rows)

	out := estimated(t, storiesFile, "cuda:0=1GiB@1|cuda:1=1GiB@1,cuda:2=1GiB@2", "--max-seqs", "4")
	assert.Regexp(t, `\ncuda:0    1━+3━+ +100% busy\n\| cuda:1  2━+4━+ +100% busy\ncuda:2    3━+4━+·*1━+ +\d+% busy\n`, out)
}
