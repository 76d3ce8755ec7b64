package generate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
	"github.com/leat-dev/leat/stage"
)

// stormTokens are byte tokens that no story has: a layer fails at each in its own way.
const (
	tokenError  = 4
	tokenPanic  = 5
	tokenGoexit = 6
)

var errStorm = errors.New("a layer fails in the storm")

// storming is a layer that fails when it meets one of those tokens.
type storming struct{ stage.Layer }

type stormingRunner struct{ stage.Runner }

func (l storming) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	if err != nil {
		return nil, err
	}
	return stormingRunner{r}, nil
}

func (r stormingRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	for _, t := range p.Header.Tokens {
		switch t {
		case tokenError:
			return errStorm
		case tokenPanic:
			panic("a layer panics in the storm")
		case tokenGoexit:
			runtime.Goexit()
		}
	}
	return r.Runner.Forward(p, in, out)
}

// stormKinds are the kinds of request in the storm. Those that are good get what they
// would have got alone, unless a batch that they were in failed.
const stormKinds = 12

// stormTokens is how many tokens a request asks for at most.
const stormTokens = 80

// stormRequest is request i, and whether it is a good one.
func stormRequest(e *generate.Engine, i int, rng *rand.Rand) (r generate.Request, good bool) {
	r = generate.Request{Prompt: openings[i%len(openings)], MaxTokens: 1 + rng.IntN(stormTokens), IgnoreEnd: true, Priority: rng.IntN(3)}
	switch i % stormKinds {
	case 0:
		r.Sampler = hostile(grow)
	case 1:
		r.Sampler = hostile(scribble)
	case 2:
		r.Sampler = samples(func([]float32) (int32, error) { panic("a sampler panics in the storm") })
	case 3:
		r.Sampler = samples(func([]float32) (int32, error) { runtime.Goexit(); return 0, nil })
	case 4:
		r.Sampler = samples(func([]float32) (int32, error) { return []int32{-7, 1 << 30}[i/stormKinds%2], nil })
	case 5:
		r.Sampler = samples(func(l []float32) (int32, error) {
			_ = e.Stats()
			_, err := e.TryGenerate(context.Background(), generate.Request{Prompt: "x", MaxTokens: 1})
			if err != nil && !errors.Is(err, generate.ErrBusy) && !errors.Is(err, errStorm) {
				var at *stage.Error
				if !errors.As(err, &at) && !errors.Is(err, pipeline.ErrFailing) {
					return 0, err
				}
			}
			return sampling.ArgMax(l), nil
		})
	case 6:
		r.Sampler = hostile(func([]float32, []int32) { <-time.After(time.Millisecond) })
	case 7:
		r.Tokens, r.Prompt = []int32{1, []int32{tokenError, tokenPanic, tokenGoexit}[i/stormKinds%3]}, ""
	case 8:
		r.Stop, r.TopLogProbs = []string{"zz", "a little girl", "\u00e9"}, 5
	default:
		return r, true
	}
	return r, false
}

// Requests with hostile samplers, layers that fail in every way, observers that are
// slow, callers that give up, and loops over logits, all at once, with few pages and a
// small backlog: each request ends, good ones with the right text or with an error that
// says which stage failed, and nothing is left behind.
//
// LEAT_STORM sets how many requests there are; 2000 takes about a minute under the race
// detector.
func TestStorm(t *testing.T) {
	n := stagetest.Fewer(300)
	if given, err := strconv.Atoi(os.Getenv("LEAT_STORM")); err == nil {
		n = given
	}
	m := parse(t)
	m.Layers[2] = storming{m.Layers[2]}
	var told atomic.Int64
	slow := watching(func() {
		if told.Add(1)%64 == 0 {
			<-time.After(200 * time.Microsecond)
		}
	})
	plan, err := generate.NewPlan(t.Context(), m, on("cpu/2"))
	require.NoError(t, err)
	var page int64
	for _, s := range plan.Stages {
		page += s.State / int64(plan.Pages)
	}
	e, err := generate.New(t.Context(), m, on("cpu/2"), pipeline.WithObserver(slow), pipeline.WithObserver(watching(func() {})),
		generate.WithMaxSeqs(16), generate.WithKVMemory(12*page), pipeline.WithBacklog(32), pipeline.WithMaxBatch(48), pipeline.WithFailureLimit(6))
	require.NoError(t, err)

	want := map[string]string{} // the longest text of each prompt
	for _, prompt := range openings {
		r, err := e.Generate(t.Context(), generate.Request{Prompt: prompt, MaxTokens: stormTokens, IgnoreEnd: true})
		require.NoError(t, err)
		want[prompt] = r.Text
	}
	var wait sync.WaitGroup
	var right, failed, ended atomic.Int64
	places := make(chan struct{}, 200) // under the race detector goroutines are few
	for i := range n {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places; ended.Add(1) }() // also where a sampler ends the goroutine
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			r, good := stormRequest(e, i, rng)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 3 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
				defer cancel()
			}
			if i%17 == 5 {
				rows := 0
				for _, err := range e.Logits(ctx, make([]int32, 1+rng.IntN(120))) {
					if rows++; err != nil || rows == 90 {
						return
					}
				}
				return
			}
			got, err := e.Generate(ctx, r)
			if !good {
				return
			}
			if err == nil {
				assert.Equal(t, want[r.Prompt][:len(got.Text)], got.Text)
				assert.Len(t, got.Tokens, r.MaxTokens)
				right.Add(1)
				return
			}
			var at *stage.Error
			assert.True(t, ctx.Err() != nil || errors.As(err, &at) || errors.Is(err, pipeline.ErrFailing), "request %d: %v", i, err)
			failed.Add(1)
		})
	}
	wait.Wait()
	assert.EqualValues(t, n, ended.Load())
	for s := e.Stats(); s.Running+s.Waiting > 0; s = e.Stats() {
		<-time.After(time.Millisecond)
	}
	for { // while it is failing, it tries a row of its own each second
		if r, err := e.Generate(t.Context(), generate.Request{Prompt: openings[0], MaxTokens: stormTokens, IgnoreEnd: true}); err == nil {
			assert.Equal(t, want[openings[0]], r.Text)
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	s := e.Stats()
	assert.Equal(t, s.Pages, s.FreePages)
	t.Logf("%d good requests right, %d not; %d stopped, %d at their length, %d cancelled, %d failed; %d preemptions", right.Load(), failed.Load(), s.Stopped, s.ReachedLength, s.Cancelled, s.Failed, s.Preempted)
	assert.Greater(t, right.Load(), int64(n/20))
	require.NoError(t, e.Shutdown(t.Context()))
}
