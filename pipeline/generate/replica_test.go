package generate_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

func needsTwoCores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two replicas need two cores")
	}
}

// A stage on several devices gives the same texts as one on a single device.
func TestReplicasGiveTheSameTexts(t *testing.T) {
	needsTwoCores(t)
	alone := tale(t, on(stagetest.OneKind(t, "cpu")))
	want := map[int]generate.Result{}
	for i := range stagetest.Fewer(16) {
		r, err := alone.Generate(t.Context(), request(i))
		require.NoError(t, err)
		want[i] = r
	}
	for _, devices := range []string{"cpu:0|cpu:1,cpu", "cpu:0|cpu:1", "cpu,cpu:0|cpu:1,cpu"} {
		e := tale(t, on(stagetest.OneKind(t, devices)))
		require.Equal(t, 2, e.Stats().Routes)
		var wait sync.WaitGroup
		for i := range stagetest.Fewer(16) {
			wait.Go(func() {
				got, err := e.Generate(t.Context(), request(i))
				assert.NoError(t, err)
				assert.Equal(t, want[i], got, "request %d on %s", i, devices)
			})
		}
		wait.Wait()
		n := e.Stats()
		assert.Equal(t, n.Pages, n.FreePages)
	}
}

// sick is a layer whose replica on one device fails every batch, once it is told
// to.
type sick struct {
	stage.Layer
	device string
	ill    atomic.Bool
}

type sickRunner struct {
	stage.Runner
	*sick
	here bool
}

func (l *sick) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	return &sickRunner{r, l, q.Device().Info().Name == l.device}, err
}

func (r *sickRunner) Close() error { return r.Runner.Close() }

func (r *sickRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	if r.here && r.ill.Load() {
		panic("the device is gone")
	}
	return r.Runner.Forward(p, in, out)
}

// A replica that fails takes only its own sequences, and they are computed again
// on the other: every request ends well, with its own text.
func TestAReplicaThatFailsLosesNothing(t *testing.T) {
	needsTwoCores(t)
	m := parse(t)
	list := stagetest.OneKind(t, "cpu:0|cpu:1,cpu")
	choices, err := device.ParseList(list)
	require.NoError(t, err)
	layer := &sick{Layer: m.Layers[1], device: choices[0].Also[0].Name}
	if layer.device == choices[0].Name {
		t.Skip("both replicas stand on one device")
	}
	m.Layers[1] = layer
	e, err := generate.New(t.Context(), m, on(list), pipeline.WithFailureLimit(3))
	require.NoError(t, err)
	defer func() { assert.NoError(t, e.Close()) }()
	want := map[int]generate.Result{}
	for i := range stagetest.Fewer(8) {
		want[i], err = e.Generate(t.Context(), request(i))
		require.NoError(t, err)
	}
	var wait sync.WaitGroup
	var told atomic.Int64
	for i := range stagetest.Fewer(48) {
		wait.Go(func() {
			if told.Add(1) == int64(stagetest.Fewer(24)) {
				layer.ill.Store(true)
			}
			got, err := e.Generate(t.Context(), request(i%stagetest.Fewer(8)))
			assert.NoError(t, err)
			assert.Equal(t, want[i%stagetest.Fewer(8)], got)
		})
	}
	wait.Wait()
	for range 20 { // until the route is given up
		got, err := e.Generate(t.Context(), request(2))
		assert.NoError(t, err)
		assert.Equal(t, want[2], got)
	}
	n := e.Stats()
	t.Logf("%+v", n)
	assert.Positive(t, n.Moved)
	assert.Equal(t, n.Pages, n.FreePages)
}

// A stage that fails every batch makes the engine say so, at once and for good;
// requests that fail on their own do not.
func TestAStageThatAlwaysFails(t *testing.T) {
	list := stagetest.Devices(t, "cpu:0")
	choices, err := device.ParseList(list)
	require.NoError(t, err)
	build := func(t *testing.T) (*model.Model, *sick, *trap) {
		m := parse(t)
		layer := &sick{Layer: m.Layers[2], device: choices[0].Name}
		bad := &trap{Layer: m.Layers[1], token: 13, spring: func(kernels.Queue) { panic("this request") }}
		m.Layers[1], m.Layers[2] = bad, layer
		return m, layer, bad
	}
	m, layer, _ := build(t)
	e, err := generate.New(t.Context(), m, on(list), pipeline.WithFailureLimit(3))
	require.NoError(t, err)
	for range 10 {
		_, err := e.Generate(t.Context(), generate.Request{Tokens: []int32{1, 13}})
		require.ErrorContains(t, err, "this request")
		require.NotErrorIs(t, err, pipeline.ErrFailing)
	}
	_, err = e.Generate(t.Context(), request(1))
	require.NoError(t, err, "bad requests don't make a good engine fail")

	layer.ill.Store(true)
	for range 4 {
		_, err = e.Generate(t.Context(), request(1))
		require.ErrorContains(t, err, "the device is gone")
	}
	_, err = e.Generate(t.Context(), request(1))
	require.ErrorIs(t, err, pipeline.ErrFailing)
	var at *stage.Error
	require.ErrorAs(t, err, &at, "it says where")
	assert.Equal(t, "block 1", at.Layer)
	assert.Zero(t, e.Stats().Routes)
	require.NoError(t, e.Close())
}

// Shutdown waits for each request that was accepted; the others are refused before they
// begin.
func TestShutdown(t *testing.T) {
	m := parse(t)
	e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, "cpu/2")), generate.WithMaxSeqs(2))
	require.NoError(t, err)
	var wait sync.WaitGroup
	begun := make(chan struct{}, 6)
	var whole, refused atomic.Int64
	for i := range 6 {
		wait.Go(func() {
			n := 0
			for _, err := range e.Stream(t.Context(), generate.Request{Prompt: openings[i], MaxTokens: 60, IgnoreEnd: true}) {
				if err != nil {
					assert.ErrorIs(t, err, generate.ErrClosed)
					assert.Zero(t, n)
					refused.Add(1)
					return
				}
				if n++; n == 1 {
					begun <- struct{}{}
				}
			}
			assert.Equal(t, 61, n)
			whole.Add(1)
		})
	}
	<-begun
	require.NoError(t, e.Err())
	require.NoError(t, e.Shutdown(t.Context()))
	require.ErrorIs(t, e.Err(), generate.ErrClosed)
	wait.Wait()
	assert.Positive(t, whole.Load())
	assert.EqualValues(t, 6, whole.Load()+refused.Load())
	_, err = e.Generate(t.Context(), generate.Request{Prompt: "x"})
	assert.ErrorIs(t, err, generate.ErrClosed)
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Close())
}

// A Shutdown whose context ends returns. The requests go on until they end, or Close
// ends them.
func TestShutdownThatMayNotWait(t *testing.T) {
	for _, closes := range []bool{false, true} {
		e, err := generate.New(t.Context(), parse(t), on(stagetest.Devices(t, "cpu")))
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		n, failed := 0, error(nil)
		for _, err := range e.Stream(t.Context(), generate.Request{Prompt: "Once", IgnoreEnd: true}) {
			if n++; n == 1 {
				assert.ErrorIs(t, e.Shutdown(ended), context.Canceled)
				_, err := e.Generate(t.Context(), generate.Request{Prompt: "x"})
				assert.ErrorIs(t, err, generate.ErrClosed)
				if closes {
					assert.NoError(t, e.Close())
				}
			}
			failed = err
		}
		if closes {
			assert.True(t, failed == nil || errors.Is(failed, generate.ErrClosed), "%v", failed)
		} else {
			assert.NoError(t, failed)
			assert.Greater(t, n, 100)
		}
		assert.NoError(t, e.Shutdown(t.Context()))
	}
}

// samples is a caller's sampler.
type samples func(logits []float32) (int32, error)

func (f samples) Sample(logits []float32, _ []int32) (int32, error) { return f(logits) }

// What a caller's sampler gets wrong ends its request alone.
func TestSamplersThatGoWrong(t *testing.T) {
	e := tale(t)
	nan := float32(math.NaN())
	for name, f := range map[string]samples{
		"panics":  func([]float32) (int32, error) { panic("oh") },
		"outside": func([]float32) (int32, error) { return 512, nil },
		"fails":   func([]float32) (int32, error) { return 0, errors.New("no idea") },
		"breaks logits": func(l []float32) (int32, error) {
			for i := range l {
				l[i] = nan
			}
			return 5, nil
		},
	} {
		_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 3, LogProbs: true, Sampler: f})
		if name != "breaks logits" {
			assert.Error(t, err, name)
		}
		_, err = e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 3})
		assert.NoError(t, err, "the next request after one that %s", name)
	}
	for _, bias := range []map[int32]float32{{512: 1}, {-1: 1}, {3: nan}} {
		_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", Sampling: generate.Sampling{Bias: bias}})
		assert.ErrorContains(t, err, "bias")
	}
}

// A sampler runs on the goroutine that takes its request's tokens. If it ends that
// goroutine, its request is cancelled, and the others go on.
func TestSamplerThatEndsTheGoroutine(t *testing.T) {
	m := parse(t)
	e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, "cpu")))
	require.NoError(t, err)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			r := generate.Request{Prompt: openings[i], IgnoreEnd: true}
			if i == 2 {
				r.Sampler = samples(func([]float32) (int32, error) { runtime.Goexit(); return 0, nil })
			}
			tokens := 0
			for _, err := range e.Stream(t.Context(), r) {
				assert.NoError(t, err)
				tokens++
			}
			assert.Greater(t, tokens, 100)
		})
	}
	wait.Wait()
	assert.EqualValues(t, 1, e.Stats().Cancelled)
	_, err = e.Generate(t.Context(), generate.Request{Prompt: "x", MaxTokens: 3})
	assert.NoError(t, err)
	require.NoError(t, e.Close())
}

// A sampler that blocks, or that calls the engine, holds up its own request alone,
// and Close does not wait for it.
func TestSamplersThatTakeTheirTime(t *testing.T) {
	e, err := generate.New(t.Context(), parse(t), on(stagetest.Devices(t, "cpu")), generate.WithMaxSeqs(4))
	require.NoError(t, err)
	release, blocked := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", Sampler: samples(func([]float32) (int32, error) {
			close(blocked)
			<-release
			return 5, nil
		})})
		assert.ErrorIs(t, err, generate.ErrClosed)
	})
	<-blocked
	for range 3 {
		_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 20})
		require.NoError(t, err)
	}
	_, err = e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 3, Sampler: samples(func([]float32) (int32, error) {
		_ = e.Stats()
		inner, err := e.Generate(t.Context(), generate.Request{Prompt: "Lily", MaxTokens: 2})
		if err != nil {
			return 0, err
		}
		return inner.Tokens[0], nil
	})})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	close(release)
	wait.Wait()
}

// Who reads logits slowly doesn't keep others from their pages and places.
func TestSlowReaderOfLogitsYields(t *testing.T) {
	e := tale(t, generate.WithMaxSeqs(1))
	n := 0
	var rows [][]float32
	for row, err := range e.Logits(t.Context(), make([]int32, 128)) {
		require.NoError(t, err)
		rows = append(rows, row)
		if n++; n == 3 {
			_, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 3})
			require.NoError(t, err)
		}
	}
	assert.Len(t, rows, 128)
	assert.Positive(t, e.Stats().Preempted)
	again := logits(t, e, make([]int32, 128))
	assert.Equal(t, again, slices.Concat(rows...))
}
