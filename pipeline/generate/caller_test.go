package generate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/internal/stagetest/simulated"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
	"github.com/leat-dev/leat/stage"
)

// hostile is a sampler that does what it likes with what it is lent, and then takes
// the most likely token.
type hostile func(logits []float32, tokens []int32)

func (h hostile) Sample(logits []float32, tokens []int32) (int32, error) {
	id := sampling.ArgMax(logits)
	h(logits, tokens)
	return id, nil
}

// grow appends to what it is lent; scribble writes to it.
func grow(logits []float32, tokens []int32) {
	_ = append(logits, slices.Repeat([]float32{1e30}, 4096)...)
	_ = append(tokens, slices.Repeat([]int32{7}, 4096)...)
}

func scribble(logits []float32, tokens []int32) {
	for i := range logits {
		logits[i] = float32(math.NaN())
	}
	for i := range tokens {
		tokens[i] = 9
	}
}

// A sampler that appends or writes to what it is lent changes no result, neither of the
// requests beside it nor, by the prefix cache, of those after it.
func TestSamplersThatWriteToWhatTheyAreLent(t *testing.T) {
	e := tale(t, on(stagetest.OneKind(t, "cpu/2")), generate.WithMaxSeqs(32))
	long := slices.Repeat([]int32{1, 403, 407, 261, 376, 388, 300, 301}, 9)
	ask := func(i int) generate.Request {
		r := generate.Request{Tokens: long, MaxTokens: 30, IgnoreEnd: true, LogProbs: true, TopLogProbs: 3}
		if i%2 == 0 {
			r.Tokens = append([]int32{1}, long[:10+i%20]...)
		}
		return r
	}
	read := func(r generate.Request) (all []generate.Token) {
		for tok, err := range e.Stream(t.Context(), r) {
			if !assert.NoError(t, err) {
				break
			}
			tok.At = time.Time{}
			all = append(all, tok)
		}
		return all
	}
	n := stagetest.Fewer(40)
	want := make([][]generate.Token, n)
	for i := range want {
		want[i] = read(ask(i))
	}
	var wait sync.WaitGroup
	for i := range n {
		for _, h := range []hostile{nil, grow, scribble} {
			wait.Go(func() {
				r := ask(i)
				if h != nil {
					r.Sampler = h
				}
				assert.Equal(t, want[i], read(r), "request %d", i)
			})
		}
	}
	wait.Wait()
	for i := range n {
		assert.Equal(t, want[i], read(ask(i)), "request %d, again", i)
	}
}

// A caller who doesn't take its tokens has the engine make a bounded number of them.
// The others go on, and get its place; later it gets all of its tokens.
func TestSlowReadersHoldABoundedAmount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stages, tokens = 2, 5000
		e := simulate(t, equal(stages, time.Millisecond, 0, 1), nil, generate.WithContext(8192), generate.WithMaxSeqs(2))
		var wait sync.WaitGroup
		slow := [][]int32{{3, 1, 4}, {2, 7, 1}}
		for _, prompt := range slow {
			wait.Go(func() {
				var got []int32
				for tok, err := range e.Stream(t.Context(), generate.Request{Tokens: prompt, MaxTokens: tokens, IgnoreEnd: true}) {
					require.NoError(t, err)
					if tok.ID >= 0 {
						got = append(got, tok.ID)
					}
					if len(got) == 1 {
						<-time.After(time.Hour)
					}
				}
				assert.Equal(t, simulated.Continue(stages, vocab, prompt, tokens), got)
			})
		}
		<-time.After(time.Minute)
		before := e.Stats()
		assert.LessOrEqual(t, before.GeneratedTokens, int64(2*1200))
		assert.Greater(t, before.GeneratedTokens, int64(2*1000))
		<-time.After(10 * time.Minute)
		assert.Equal(t, before.GeneratedTokens, e.Stats().GeneratedTokens, "nothing more is made for them")
		for range 3 { // both places are theirs, as long as nobody else wants them
			r, err := e.Generate(t.Context(), generate.Request{Tokens: []int32{5, 5, 5}, MaxTokens: 100, IgnoreEnd: true})
			require.NoError(t, err)
			assert.Equal(t, simulated.Continue(stages, vocab, r.Prompt, 100), r.Tokens)
		}
		assert.Positive(t, e.Stats().Preempted)
		wait.Wait()
		require.NoError(t, e.Close())
	})
}

// Two loops over logits whose bodies take long displace each other where there is one
// place. Both come to their ends, and little is computed twice.
func TestSlowReadersOfLogitsComeToTheirEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 400
		e := simulate(t, equal(2, time.Millisecond, 0, 1), nil, generate.WithContext(512), generate.WithMaxSeqs(1))
		var wait sync.WaitGroup
		for i := range 2 {
			wait.Go(func() {
				prompt := make([]int32, n)
				prompt[0] = int32(i)
				rows := 0
				for _, err := range e.Logits(t.Context(), prompt) {
					require.NoError(t, err)
					rows++
					<-time.After(time.Second)
				}
				assert.Equal(t, n, rows)
			})
		}
		wait.Wait()
		rows := e.Stats().Stages[0].Rows
		t.Logf("%d rows computed for %d", rows, 2*n)
		assert.Less(t, rows, int64(20*n))
		require.NoError(t, e.Close())
	})
}

// Without waiting, a request beyond the backlog is ErrBusy.
func TestTryStream(t *testing.T) {
	e := tale(t, on(stagetest.Devices(t, "cpu")), generate.WithMaxSeqs(1), pipeline.WithBacklog(1))
	ctx, cancel := context.WithCancel(t.Context())
	release, begun := make(chan struct{}), make(chan struct{}, 2)
	var wait sync.WaitGroup
	ask := generate.Request{Prompt: "Once", Sampler: samples(func([]float32) (int32, error) {
		begun <- struct{}{}
		<-release
		return 0, errors.New("enough")
	})}
	wait.Go(func() { // runs
		_, err := e.TryGenerate(ctx, ask)
		assert.ErrorContains(t, err, "enough")
	})
	<-begun
	holding := make(chan struct{})
	wait.Go(func() { // waits
		close(holding)
		for _, err := range e.Stream(ctx, generate.Request{Prompt: "Lily", Priority: -1}) {
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
			}
		}
	})
	<-holding
	for e.Stats().Waiting == 0 {
		<-time.After(time.Millisecond)
	}
	began := time.Now()
	r, err := e.TryGenerate(ctx, generate.Request{Prompt: "Tom"})
	if e.Stats().Waiting > 0 { // the first one has not been displaced meanwhile
		require.ErrorIs(t, err, generate.ErrBusy)
		assert.Equal(t, generate.Failed, r.Finish)
		assert.Less(t, time.Since(began), 10*time.Second)
	}
	cancel()
	close(release)
	wait.Wait()
	_, err = e.TryGenerate(t.Context(), generate.Request{Prompt: "Tom", MaxTokens: 3})
	assert.NoError(t, err)
}

// What is the caller's mistake is an ErrRequest, by Check where no model is needed to
// see it. Everything else is not.
func TestErrRequest(t *testing.T) {
	e := tale(t)
	many := make([]string, generate.MaxStops+1)
	for i := range many {
		many[i] = fmt.Sprint("stop", i)
	}
	big := map[int32]float32{}
	for i := range int32(sampling.MaxBiases + 1) {
		big[i] = 1
	}
	for name, c := range map[string]struct {
		r     generate.Request
		model bool // it takes a model to see it
	}{
		"both":          {r: generate.Request{Prompt: "x", Tokens: []int32{1}}},
		"max tokens":    {r: generate.Request{Prompt: "x", MaxTokens: -1}},
		"empty stop":    {r: generate.Request{Prompt: "x", Stop: []string{""}}},
		"broken stop":   {r: generate.Request{Prompt: "x", Stop: []string{"a", "\xff"}}},
		"many stops":    {r: generate.Request{Prompt: "x", Stop: many}},
		"long stop":     {r: generate.Request{Prompt: "x", Stop: []string{strings.Repeat("a", generate.MaxStopBytes+1)}}},
		"many biases":   {r: generate.Request{Prompt: "x", Sampling: generate.Sampling{Bias: big}}},
		"two samplers":  {r: generate.Request{Prompt: "x", Sampler: samples(nil), Sampling: generate.Sampling{Seed: 1}}},
		"temperature":   {r: generate.Request{Prompt: "x", Sampling: generate.Sampling{Temperature: -1}}},
		"top log-probs": {r: generate.Request{Prompt: "x", TopLogProbs: generate.MaxTopLogProbs + 1}},
		"no tokens":     {r: generate.Request{Tokens: []int32{}}, model: true},
		"token":         {r: generate.Request{Tokens: []int32{99999}}, model: true},
		"bias":          {r: generate.Request{Prompt: "x", Sampling: generate.Sampling{Bias: map[int32]float32{600: 1}}}, model: true},
		"too long":      {r: generate.Request{Tokens: make([]int32, 1000)}, model: true},
		"text too long": {r: generate.Request{Prompt: strings.Repeat("a", 1<<20)}, model: true},
	} {
		if err := c.r.Check(); c.model {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorIs(t, err, generate.ErrRequest, name)
		}
		_, err := e.Generate(t.Context(), c.r)
		assert.ErrorIs(t, err, generate.ErrRequest, name)
		assert.Equal(t, strings.Contains(name, "too long"), errors.Is(err, generate.ErrTooLong), name)
		assert.Less(t, len(fmt.Sprint(err)), 1000, name)
	}
	for _, err := range e.Logits(t.Context(), nil) {
		assert.ErrorIs(t, err, generate.ErrRequest)
	}
	for _, err := range e.Logits(t.Context(), make([]int32, 1000)) {
		assert.ErrorIs(t, err, generate.ErrTooLong)
	}
	assert.NotErrorIs(t, generate.ErrClosed, generate.ErrRequest)
	_, err := e.Generate(t.Context(), generate.Request{Prompt: "x", Sampler: samples(func([]float32) (int32, error) { return -5, nil })})
	assert.Error(t, err)
	assert.NotErrorIs(t, err, generate.ErrRequest)
	require.NoError(t, (generate.Request{Prompt: "x", Sampling: generate.DefaultSampling()}).Check())
}

// What a large request costs is its caller's time: the engine isn't locked meanwhile.
func TestLargeRequestsHoldUpNobody(t *testing.T) {
	e := tale(t, on(stagetest.Devices(t, "cpu")))
	stops := make([]string, generate.MaxStops)
	for i := range stops {
		stops[i] = fmt.Sprintf("%06d", i) + strings.Repeat("x", generate.MaxStopBytes/generate.MaxStops-6)
	}
	bias := map[int32]float32{}
	for i := range int32(512) {
		bias[i] = 1e-6 * float32(i)
	}
	large := generate.Request{Prompt: "Once upon a time", MaxTokens: 40, IgnoreEnd: true, Stop: stops, Sampling: generate.Sampling{Bias: bias}}
	small := generate.Request{Prompt: "Once upon a time", MaxTokens: 40, IgnoreEnd: true}
	want, err := e.Generate(t.Context(), small)
	require.NoError(t, err)
	times := func(beside bool) time.Duration {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wait sync.WaitGroup
		defer wait.Wait()
		defer cancel()
		if beside {
			wait.Go(func() {
				for ctx.Err() == nil {
					_, _ = e.Generate(ctx, large)
				}
			})
		}
		var all []time.Duration
		for range 9 {
			began := time.Now()
			got, err := e.Generate(t.Context(), small)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	alone, beside := times(false), times(true)
	t.Logf("a request takes %v alone, %v beside large ones", alone, beside)
	assert.Less(t, beside, 12*alone+200*time.Millisecond)
}

// The n most likely tokens come with each token, by the model's own logits, whatever
// changes them and whoever draws.
func TestTopLogProbs(t *testing.T) {
	e := tale(t, on(stagetest.OneKind(t, "cpu")))
	prompt, err := e.Tokens("Once upon a time")
	require.NoError(t, err)
	for name, r := range map[string]generate.Request{
		"greedy":  {},
		"drawn":   {Sampling: generate.Sampling{Temperature: 1, TopK: 5, Seed: 3, RepeatPenalty: 1.3, Bias: map[int32]float32{400: 3}}},
		"sampler": {Sampler: hostile(scribble)},
	} {
		r.Tokens, r.MaxTokens, r.IgnoreEnd, r.TopLogProbs = prompt, 12, true, 4
		sequence := slices.Clone(prompt)
		for tok, err := range e.Stream(t.Context(), r) {
			require.NoError(t, err)
			if tok.ID < 0 {
				assert.Empty(t, tok.Top)
				continue
			}
			rows := logits(t, e, sequence)
			p := sampling.NewLogProbs(rows[len(rows)-vocab:])
			assert.Equal(t, p.Top(nil, 4), tok.Top, name)
			assert.Equal(t, p.Of(tok.ID), tok.LogProb, name)
			sequence = append(sequence, tok.ID)
		}
		assert.Len(t, sequence, len(prompt)+12, name)
	}
	for tok, err := range e.Stream(t.Context(), generate.Request{Tokens: prompt, MaxTokens: 3, LogProbs: true}) {
		require.NoError(t, err)
		assert.Empty(t, tok.Top)
	}
}

// Options that have no effect in an engine are errors.
func TestOptionsWithoutEffect(t *testing.T) {
	for name, o := range map[string]generate.Option{
		"WithInput": pipeline.WithInput(4), "WithAhead": pipeline.WithAhead(4), "WithIsolation": pipeline.WithIsolation(false),
		"WithState": pipeline.WithState(stage.Config{Pages: 4}), "not an option": foreign{},
	} {
		_, err := generate.NewPlan(t.Context(), parse(t), o)
		assert.ErrorContains(t, err, name)
	}
	p, err := generate.NewPlan(t.Context(), parse(t), pipeline.WithMaxBatch(7), generate.WithMaxSeqs(3), pipeline.WithBacklog(9))
	require.NoError(t, err)
	assert.Equal(t, 7, p.MaxBatch())
}

type foreign struct{}

func (foreign) EngineOption() {}

// watching is an observer with one function for all that it is told.
type watching func()

func (f watching) Filled(pipeline.Handling)  { f() }
func (f watching) Worked(stage.Work)         { f() }
func (f watching) Emptied(pipeline.Handling) { f() }

// Observers, several at once, may ask for statistics, and are told that they can't wait
// for their own end.
func TestObserversThatCallTheEngine(t *testing.T) {
	var e *generate.Engine
	var mu sync.Mutex
	ready := make(chan struct{})
	calls, refused := 0, 0
	o := func() {
		<-ready
		s := e.Stats()
		mu.Lock()
		defer mu.Unlock()
		calls++
		_ = s
		_ = e.Err()
	}
	worked := working(func() {
		<-ready
		if err := e.Close(); err != nil {
			mu.Lock()
			defer mu.Unlock()
			refused++
			assert.ErrorContains(t, err, "can't wait until its own engine has ended")
		}
	})
	e, err := generate.New(t.Context(), parse(t), on("cpu"), pipeline.WithObserver(watching(o)), pipeline.WithObserver(worked), pipeline.WithObserver(watching(o)))
	require.NoError(t, err)
	close(ready)
	r, err := e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 4, IgnoreEnd: true})
	require.NoError(t, err)
	assert.Len(t, r.Tokens, 4)
	require.NoError(t, e.Close())
	assert.GreaterOrEqual(t, calls, 2*3*4)
	assert.GreaterOrEqual(t, refused, 4)
}

// working is an observer that is told of work alone.
type working func()

func (f working) Filled(pipeline.Handling)  {}
func (f working) Worked(stage.Work)         { f() }
func (f working) Emptied(pipeline.Handling) {}

// filling is an observer that is told of filled batches alone.
type filling func()

func (f filling) Filled(pipeline.Handling)  { f() }
func (f filling) Worked(stage.Work)         {}
func (f filling) Emptied(pipeline.Handling) {}

// An observer that panics on the goroutine of a caller ends the program, though the
// caller recovers panics.
func TestAnObserverThatPanicsOnACallersGoroutine(t *testing.T) {
	const variable = "LEAT_TEST_PANIC"
	if os.Getenv(variable) != "" {
		e, err := generate.New(t.Context(), parse(t), on("cpu"), pipeline.WithObserver(filling(func() { panic("oh dear") })))
		require.NoError(t, err)
		defer func() { _ = recover() }()
		_, _ = e.Generate(t.Context(), generate.Request{Prompt: "Once", MaxTokens: 4})
		<-time.After(time.Minute)
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAnObserverThatPanicsOnACallersGoroutine$")
	c.Env = append(os.Environ(), variable+"=1")
	out, err := c.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "oh dear")
	assert.Contains(t, string(out), "caller_test.go", "it says where")
}
