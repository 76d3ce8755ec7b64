package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/generate"
)

// numbered is an input of n lines, each its number.
func numbered(n int) *strings.Reader {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return strings.NewReader(b.String())
}

// testFlow is a flow whose task n has the id n and is worked on by work.
func testFlow(window int, work func(ctx context.Context, t *task)) *flow {
	return &flow{
		window:  window,
		prepare: func(l inputLine) (*task, error) { return &task{number: l.number, id: l.text}, nil },
		work: func(ctx context.Context, t *task) {
			t.finish = generate.Stop
			work(ctx, t)
		},
	}
}

// ids are those of the lines of an output.
func ids(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":`), ",")
		all = append(all, id)
	}
	return all
}

// However slow a line is, no more than the window is taken in, and all that is
// before the slow one has been written.
func TestFlowWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, window, slow = 10000, 32, 5000
		release := make(chan struct{})
		var taken, working, most atomic.Int64
		f := testFlow(window, func(_ context.Context, k *task) {
			n := working.Add(1)
			defer working.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if k.number == slow {
				<-release
			}
		})
		prepare := f.prepare
		f.prepare = func(l inputLine) (*task, error) {
			taken.Add(1)
			return prepare(l)
		}
		var w locked
		ended := make(chan error, 1)
		go func() { ended <- f.run(t.Context(), numbered(all), &w) }()

		synctest.Wait()
		assert.Len(t, ids(w.String()), slow-1)
		assert.Equal(t, int64(slow-1+window), taken.Load(), "the window is full")
		assert.Equal(t, int64(1), working.Load(), "what follows the slow line is done")
		close(release)
		require.NoError(t, <-ended)
		got := ids(w.String())
		require.Len(t, got, all)
		for i, id := range got {
			require.Equal(t, fmt.Sprint(i+1), id)
		}
		assert.LessOrEqual(t, most.Load(), int64(window))
		assert.Equal(t, all, f.tally.lines)
	})
}

// locked is a buffer that is read while it is written.
type locked struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Every write is of whole lines, so that whatever ends the process leaves such.
func TestFlowWritesWholeLines(t *testing.T) {
	f := testFlow(300, func(_ context.Context, k *task) { k.text = strings.Repeat("x", k.number*k.number) })
	var w pieces
	require.NoError(t, f.run(t.Context(), numbered(300), &w))
	for _, p := range w {
		require.True(t, strings.HasPrefix(p, `{"id":`) && strings.HasSuffix(p, "}\n"), "%.20s", p)
	}
	assert.Len(t, ids(strings.Join(w, "")), 300)
}

// Long lines fill the window before it has its number of them.
func TestFlowBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var taken atomic.Int64
		f := testFlow(100, func(context.Context, *task) { <-release })
		f.prepare = func(l inputLine) (*task, error) { taken.Add(1); return &task{number: l.number}, nil }
		long := strings.Repeat("x", longestLine-1) + "\n"
		in := io.MultiReader(strings.NewReader(long), strings.NewReader(long), strings.NewReader(long),
			strings.NewReader(long), strings.NewReader(long), strings.NewReader(long))
		var w locked
		ended := make(chan error, 1)
		go func() { ended <- f.run(t.Context(), in, &w) }()
		synctest.Wait()
		assert.Equal(t, int64(mostBytes/longestLine), taken.Load())
		close(release)
		require.NoError(t, <-ended)
		assert.Equal(t, int64(6), taken.Load())
		assert.Len(t, ids(w.String()), 6)
	})
}

// At the end of ctx the results before the first unfinished line are written,
// and what follows it isn't, finished or not.
func TestFlowInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := testFlow(8, func(ctx context.Context, k *task) {
			switch k.number {
			case 1: // takes no notice
				<-time.After(time.Hour)
			case 2:
				k.err = errors.New("of its own")
			case 4, 6:
				<-ctx.Done()
				k.err = fmt.Errorf("stopped: %w", ctx.Err())
			}
		})
		var w strings.Builder
		ended := make(chan error, 1)
		go func() { ended <- f.run(ctx, numbered(100), &w) }()
		synctest.Wait()
		stop()
		assert.Equal(t, context.Canceled, <-ended)
		assert.Equal(t, []string{"1", "2", "3"}, ids(w.String()))
		assert.Equal(t, 3, f.tally.lines)
		assert.Equal(t, 1, f.tally.failed)
		assert.Equal(t, time.Hour, f.tally.took)
	})
	// When all lines have been taken and finished, nothing was interrupted.
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := testFlow(8, func(_ context.Context, k *task) {
			<-time.After(time.Hour)
			if k.number == 3 {
				stop()
			}
		})
		var w strings.Builder
		require.NoError(t, f.run(ctx, numbered(3), &w))
		assert.Len(t, ids(w.String()), 3)
	})
}

// A writer that fails ends the work that still runs.
func TestFlowCantWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := testFlow(8, func(ctx context.Context, k *task) {
			if k.number > 1 {
				<-ctx.Done()
				k.err = ctx.Err()
			}
		})
		err := f.run(t.Context(), numbered(100), full{})
		assert.ErrorContains(t, err, "disk is full")
	})
}

func TestFlowShowsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := testFlow(2, func(_ context.Context, k *task) {
			<-time.After(2 * time.Second)
			for range 100 {
				k.count()
				k.tokens = append(k.tokens, 1)
			}
			if k.number == 1 {
				k.err = errors.New("failed")
			}
		})
		var screen bytes.Buffer
		f.show = &bar{w: &screen, what: "writing", patient: time.Now().Add(patience)}
		f.tally.total, f.tally.seed = 8, 7
		require.NoError(t, f.run(t.Context(), numbered(4), io.Discard))
		pictures := strings.Split(screen.String(), eraseLine)
		assert.Greater(t, len(pictures), 50, "it moves while nothing is finished")
		assert.Equal(t, "writing "+filled(0)+"  0%, 0 lines, 0.0 tokens/s", pictures[1])
		assert.Regexp(t, "writing "+filled(0.5)+` 50%, 2 lines, \d\d\.\d tokens/s, 1 failed`, screen.String())
		assert.Empty(t, pictures[len(pictures)-1], "it is gone afterwards")
		assert.Equal(t, "300 tokens in 4.0 s, 75.0 tokens/s, seed 7", f.tally.String())
		assert.Equal(t, batchDocument{4, 0, 1, 300, 75, 7}, f.tally.document())

		f.tally.total = 0
		assert.Equal(t, "4 lines, 100.0 tokens/s, 1 failed", f.tally.picture(f.show.filled), "without a size there is no bar")
	})
}
