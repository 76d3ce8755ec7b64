package generate_test

import (
	"context"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	devicecpu "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens an engine on a file for the time of a test.
func open(t *testing.T, path string, options ...generate.Option) *generate.Engine {
	t.Helper()
	e, err := generate.Open(t.Context(), path, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// tale opens an engine on the small model inside the repository.
func tale(t *testing.T, options ...generate.Option) *generate.Engine {
	t.Helper()
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	e, err := generate.New(t.Context(), m, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

func on(devices string) generate.Option { return pipeline.WithDevices(devices) }

// logits returns the logits of all positions in one slice.
func logits(t *testing.T, e *generate.Engine, tokens []int32) (all []float32) {
	t.Helper()
	rows := 0
	for row, err := range e.Logits(t.Context(), tokens) {
		require.NoError(t, err)
		all = append(all, row...)
		rows++
	}
	require.Equal(t, len(tokens), rows)
	return all
}

var openings = []string{
	"Once upon a time", "One day, a boy", "Lily and Tom", "The dog", "There was a big tree",
	"A little bird", "Mom said", "In the park", "Ben liked", "She was sad", "The sun", "A cat and a mouse",
	"Tim had a red ball", "It was dark", "They all", "He ran",
}

func request(i int) generate.Request {
	return generate.Request{
		Prompt:    openings[i%len(openings)],
		MaxTokens: 20 + 5*i,
		Sampling:  generate.Sampling{Temperature: 0.9, TopK: 40, TopP: 0.95, MinP: 0.02, RepeatPenalty: 1.1, Seed: uint64(i)},
	}
}

// A seed gives one text, alone or among others, through one stage or many.
func TestTextDependsOnTheSeedOnly(t *testing.T) {
	alone := map[int]generate.Result{}
	e := tale(t, on(stagetest.OneKind(t, "cpu")), generate.WithMaxSeqs(1))
	for i := range stagetest.Fewer(16) {
		r, err := e.Generate(t.Context(), request(i))
		require.NoError(t, err)
		require.NotEmpty(t, r.Tokens)
		alone[i] = r
	}
	for _, devices := range []string{"cpu/7", "cpu", "cpu/2", "cpu,cpu"}[:stagetest.Fewer(4)] {
		e := tale(t, on(stagetest.OneKind(t, devices)), pipeline.WithMaxBatch(9))
		var wait sync.WaitGroup
		for i := range stagetest.Fewer(16) {
			wait.Go(func() {
				r, err := e.Generate(t.Context(), request(i))
				assert.NoError(t, err)
				assert.Equal(t, alone[i], r, "request %d on %s", i, devices)
			})
		}
		wait.Wait()
	}
}

func TestFewPagesOnlyMakeRequestsWait(t *testing.T) {
	e := tale(t, on(stagetest.Devices(t, "cpu/2")))
	page := e.Plan().Stages[0].State / int64(e.Plan().Pages)
	for _, s := range e.Plan().Stages[1:] {
		page += s.State / int64(e.Plan().Pages)
	}
	one := page * 4 // the context is 128 tokens, a page 32

	_, err := generate.NewPlan(t.Context(), parse(t), generate.WithKVMemory(one-1))
	require.ErrorContains(t, err, "needs", "memory for less than one sequence is refused with numbers")

	e = tale(t, on(stagetest.Devices(t, "cpu/2")), generate.WithKVMemory(one))
	require.Equal(t, 4, e.Plan().Pages)
	var wait sync.WaitGroup
	for i := range stagetest.Fewer(12) {
		wait.Go(func() {
			r, err := e.Generate(t.Context(), generate.Request{Prompt: openings[i], IgnoreEnd: true})
			assert.NoError(t, err)
			assert.Equal(t, generate.Length, r.Finish)
			assert.Equal(t, 128, len(r.Prompt)+len(r.Tokens))
		})
	}
	wait.Wait()
}

func parse(t *testing.T) *model.Model {
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	return m
}

func TestStopTexts(t *testing.T) {
	e := tale(t)
	whole, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 64})
	require.NoError(t, err)
	require.Contains(t, whole.Text, "Lily")

	cut, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 64, Stop: []string{"never", "ed Li"}})
	require.NoError(t, err)
	assert.Equal(t, generate.Stop, cut.Finish)
	assert.Equal(t, ", there was a little girl nam", cut.Text)

	held, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 64, Stop: []string{whole.Text[len(whole.Text)-5:] + "nothing like this"}})
	require.NoError(t, err)
	assert.Equal(t, whole.Text, held.Text, "text held back for a stop that never came is shown at the end")

	_, err = e.Generate(t.Context(), generate.Request{Prompt: "x", Stop: []string{""}})
	assert.ErrorContains(t, err, "stop")
}

func TestRequestsAreChecked(t *testing.T) {
	e := tale(t)
	long := make([]int32, 129)
	_, err := e.Generate(t.Context(), generate.Request{Tokens: long})
	require.ErrorIs(t, err, generate.ErrTooLong)
	assert.ErrorContains(t, err, "129")
	assert.ErrorContains(t, err, "128")
	r, err := e.Generate(t.Context(), generate.Request{Tokens: long[:128]})
	require.NoError(t, err, "a prompt that fills the context is no error")
	assert.Equal(t, generate.Length, r.Finish)
	assert.Empty(t, r.Tokens)

	for _, bad := range []generate.Request{
		{Tokens: []int32{}},
		{Tokens: []int32{1, 512}},
		{Tokens: []int32{-1}},
		{Prompt: "x", MaxTokens: -1},
		{Prompt: "x", Sampling: generate.Sampling{Temperature: -1}},
		{Prompt: "x", Sampling: generate.Sampling{TopP: 1.5}},
	} {
		r, err := e.Generate(t.Context(), bad)
		assert.Error(t, err)
		assert.Equal(t, generate.Failed, r.Finish)
	}
	for _, err := range e.Logits(t.Context(), []int32{1, 600}) {
		assert.ErrorContains(t, err, "600")
	}
}

func TestCancellation(t *testing.T) {
	e := tale(t, on(stagetest.Devices(t, "cpu/2")), generate.WithMaxSeqs(2))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		var last error
		for tok, err := range e.Stream(ctx, generate.Request{Prompt: "Once upon a time", IgnoreEnd: true}) {
			if n++; n == 5 {
				cancel()
			}
			if err != nil {
				last = err
				assert.Equal(t, generate.Cancelled, tok.Finish)
			}
		}
		cancel()
		if last != nil { // it may have been done before the cancellation came
			assert.ErrorIs(t, last, context.Canceled)
		}
		for range e.Stream(t.Context(), generate.Request{Prompt: "Once", IgnoreEnd: true}) {
			break // leaving the loop cancels
		}
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r, err := e.Generate(ended, generate.Request{Prompt: "Once"})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, generate.Cancelled, r.Finish)

	r, err = e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 8})
	require.NoError(t, err, "all that was cancelled has given its pages and its place back")
	assert.Len(t, r.Tokens, 8)
}

// Whoever cancels gets no more steps, however many were made by then.
func TestCancellationIsTheNextThing(t *testing.T) {
	e := tale(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for tok, err := range e.Stream(ctx, generate.Request{Prompt: "Once upon a time", IgnoreEnd: true}) {
		if n++; n == 3 {
			for e.Stats().Stages[0].Batches < 30 { // steps pile up meanwhile
				runtime.Gosched()
			}
			cancel()
			continue
		}
		if n > 3 {
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, generate.Cancelled, tok.Finish)
		}
	}
	assert.Equal(t, 4, n)
}

func TestHugePromptIsRefusedUnread(t *testing.T) {
	_, err := tale(t).Generate(t.Context(), generate.Request{Prompt: strings.Repeat("a", 100<<20)})
	assert.ErrorIs(t, err, generate.ErrTooLong)
}

// Logits wait for their caller: they are large.
func TestLogitsAreBounded(t *testing.T) {
	e := tale(t)
	var before int64
	n := 0
	for _, err := range e.Logits(t.Context(), make([]int32, 128)) {
		require.NoError(t, err)
		if n++; n == 1 {
			for range 1000 {
				runtime.Gosched()
			}
			before = e.Stats().Stages[0].Rows
		}
	}
	assert.Equal(t, 128, n)
	assert.LessOrEqual(t, before, int64(65))
}

func TestCloseEndsRequests(t *testing.T) {
	m := parse(t)
	e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, "cpu/2")), generate.WithMaxSeqs(2), pipeline.WithBacklog(2))
	require.NoError(t, err)
	var wait sync.WaitGroup
	first := make(chan struct{})
	var once sync.Once
	for i := range 8 {
		wait.Go(func() {
			for {
				for _, err := range e.Stream(t.Context(), generate.Request{Prompt: openings[i], IgnoreEnd: true}) {
					once.Do(func() { close(first) })
					if err != nil {
						assert.ErrorIs(t, err, generate.ErrClosed)
						return
					}
				}
			}
		})
	}
	<-first
	require.NoError(t, e.Close())
	wait.Wait()
	_, err = e.Generate(t.Context(), generate.Request{Prompt: "x"})
	assert.ErrorIs(t, err, generate.ErrClosed)
	require.NoError(t, e.Close())
}

// trap is a layer that fails when it meets a token, and else is the layer that
// it stands before.
type trap struct {
	stage.Layer
	token  int32
	spring func(q kernels.Queue)
}

type trapRunner struct {
	stage.Runner
	*trap
}

func (l *trap) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	return &trapRunner{r, l}, err
}

func (r *trapRunner) Close() error { return r.Runner.Close() }

func (r *trapRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	for _, t := range p.Header.Tokens {
		if t == r.token {
			r.spring(q)
		}
	}
	return r.Runner.Forward(p, in, out)
}

type bomb struct{}

func (bomb) Do(int, int) { panic("a worker's panic") }

func TestPanicFailsItsBatchOnly(t *testing.T) {
	for name, spring := range map[string]func(q kernels.Queue){
		"stage": func(kernels.Queue) { panic("a stage's panic") },
		"worker": func(q kernels.Queue) {
			q.(interface{ Parallel(int, devicecpu.Job) }).Parallel(4, bomb{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			const token = 13 // a byte token that no story has
			m := parse(t)
			m.Layers[3] = &trap{Layer: m.Layers[3], token: token, spring: spring}
			e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, "cpu/3")))
			require.NoError(t, err)
			defer func() { assert.NoError(t, e.Close()) }()
			for _, s := range e.Plan().Stages {
				if name == "worker" && s.From <= 3 && 3 < s.To && s.Device.Kind != device.CPU {
					t.Skip("a GPU has no workers that panic")
				}
			}
			want, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 30})
			require.NoError(t, err)

			for range stagetest.Fewer(10) {
				_, err := e.Generate(t.Context(), generate.Request{Tokens: []int32{1, token}})
				var at *stage.Error
				require.ErrorAs(t, err, &at)
				assert.Equal(t, "block 2", at.Layer)
				assert.Equal(t, e.Plan().Stages[at.Stage].Layers, at.Layers)
				assert.Equal(t, e.Plan().Stages[at.Stage].Device.Name, at.Device)
				assert.ErrorContains(t, err, name+"'s panic")

				got, err := e.Generate(t.Context(), generate.Request{Prompt: "Once upon a time", MaxTokens: 30})
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
		})
	}
}

func TestDevicesThatArentThere(t *testing.T) {
	_, err := generate.NewPlan(t.Context(), parse(t), on("cpu:99"))
	require.ErrorContains(t, err, "99")
	_, err = generate.NewPlan(t.Context(), parse(t), on("rocm:0"))
	var missing device.Unavailable
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, device.ROCm, missing.Kind)

	_, err = generate.NewPlan(t.Context(), parse(t), generate.WithKV(kernels.Q8_0))
	require.ErrorContains(t, err, "32", "heads of 8 elements can't be quantized in blocks of 32")
	_, err = generate.Open(t.Context(), "no such file.gguf")
	require.ErrorContains(t, err, "no such file.gguf")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
