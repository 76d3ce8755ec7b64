package generate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/stagetest/simulated"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

// The requests of a fault's test are told apart by their first tokens: the victim,
// which is the longest and goes first, and those beside it.
const (
	victim        = 500
	victimPrompt  = 400
	victimTokens  = 40
	besidePrompt  = 50
	besideTokens  = 60
	besides       = 3
	fewPages      = 22 // of which the victim takes 14, and the others at their ends 4 each
	faultsStages  = 3
	faultsContext = 448
)

// kind is a way in which a layer fails.
type kind struct {
	name string
	// fail does so; ctx is the victim's.
	fail func(ctx context.Context, q kernels.Queue) error
	text string // of the error; "": there is none, the victim's deadline passes
}

var errTold = errors.New("told to fail")

var kinds = []kind{
	{"error", func(context.Context, kernels.Queue) error { return errTold }, "told to fail"},
	{"panic", func(context.Context, kernels.Queue) error { panic("told to panic") }, "panic: told to panic"},
	{"panic in a worker", func(_ context.Context, q kernels.Queue) error {
		simulated.Work(q, func() { panic("told to panic") })
		return nil
	}, "panic in a worker: told to panic"},
	{"hang", func(ctx context.Context, _ kernels.Queue) error {
		<-ctx.Done()
		return nil
	}, ""},
	{"goexit", func(context.Context, kernels.Queue) error {
		runtime.Goexit()
		return nil
	}, "ended the stage's goroutine"},
}

// moment is when a layer fails.
type moment struct {
	name   string
	scarce bool // pages are so few that requests yield
	when   func(b *sight) bool
	first  func(e *generate.Engine) error // is begun before the layer fails, and ends after
	closed bool                           // all requests are ended by that
}

var moments = []moment{
	{name: "first chunk", when: func(b *sight) bool { return b.has(0) }},
	{name: "middle chunk", when: func(b *sight) bool { return b.has(victimPrompt / 2) }},
	{name: "decode", when: func(b *sight) bool { return b.has(victimPrompt + 5) }},
	{name: "another yields", scarce: true, when: func(b *sight) bool { return b.requests[victim] && b.yields() > 0 }},
	{name: "drain", when: func(b *sight) bool { return b.has(victimPrompt + 5) },
		first: func(e *generate.Engine) error { return e.Shutdown(context.Background()) }},
	{name: "close", when: func(b *sight) bool { return b.has(victimPrompt + 5) },
		first: (*generate.Engine).Close, closed: true},
}

// sight is a batch as a stage sees it.
type sight struct {
	requests  map[int32]bool // whose rows it has
	positions map[int]bool   // of the victim's rows
	yields    func() int
}

func (s *sight) has(position int) bool { return s.positions[position] }

// watcher knows the requests of a stage's batches by their first pages: which
// request's they are, by its first token.
type watcher map[int32]int32

func (w watcher) look(b *stage.Pass) *sight {
	s := &sight{requests: map[int32]bool{}, positions: map[int]bool{}}
	h := b.Header
	for row, token := range h.Tokens {
		page := h.Pages[h.Tables[row]]
		if h.Positions[row] == 0 {
			w[page] = token
		}
		s.requests[w[page]] = true
		if w[page] == victim {
			s.positions[int(h.Positions[row])] = true
		}
	}
	return s
}

// outcome is what became of a request.
type outcome struct {
	tokens []int32
	err    error
}

// Whatever fails, at whatever stage and moment: the requests of that batch get an
// error that says where and what it was, the others what they would have got, and
// nothing is lost.
func TestFaults(t *testing.T) {
	for at := range faultsStages {
		for _, m := range moments {
			for _, k := range kinds {
				t.Run(fmt.Sprintf("stage %d/%s/%s", at, m.name, k.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { fault(t, at, m, k) })
				})
			}
		}
	}
}

func fault(t *testing.T, at int, m moment, k kind) {
	var e *generate.Engine
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	hurt, fired := map[int32]bool{}, false
	ended := make(chan error, 1)
	w := watcher{}
	spring := func(p *stage.Pass) error {
		s := w.look(p)
		s.yields = func() int { return int(e.Stats().Preempted) }
		if fired || !m.when(s) {
			return nil
		}
		hurt, fired = s.requests, true
		if m.first != nil {
			go func() { ended <- m.first(e) }()
			<-time.After(time.Microsecond) // it is under way
		}
		return k.fail(ctx, p.Queue)
	}
	options := []generate.Option{generate.WithContext(faultsContext), generate.WithMaxSeqs(8)}
	if m.scarce {
		options = append(options, generate.WithKVMemory(fewPages*faultsStages*kernels.PageTokens*4))
	}
	l := equal(faultsStages, time.Millisecond, 10*time.Microsecond, 1)
	e = simulate(t, l, func(layers []*simulated.Layer) { layers[at].Before = spring }, options...)
	defer e.Close()

	prompts := map[int32][]int32{victim: make([]int32, victimPrompt)}
	for i := range besides {
		prompts[int32(i+1)] = make([]int32, besidePrompt)
	}
	outcomes, wait := map[int32]outcome{}, sync.WaitGroup{}
	var mu sync.Mutex
	for name, prompt := range prompts {
		prompt[0] = name
		r, ctx := generate.Request{Tokens: prompt, MaxTokens: besideTokens, IgnoreEnd: true}, ctx
		if name == victim {
			r.MaxTokens, r.Priority = victimTokens, 1
		} else {
			ctx = t.Context()
		}
		wait.Go(func() {
			result, err := e.Generate(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			outcomes[name] = outcome{result.Tokens, err}
		})
	}
	wait.Wait()
	require.True(t, fired, "the moment never came")
	if m.first != nil {
		require.NoError(t, <-ended)
	}
	for name, got := range outcomes {
		want := simulated.Continue(faultsStages, vocab, prompts[name], besideTokens)
		switch at := (&stage.Error{Stage: at, Layers: fmt.Sprintf("block %d", at), Device: simulated.Name(at)}); {
		case m.closed && got.err != nil: // some may have come to their ends before
			assert.ErrorIs(t, got.err, generate.ErrClosed)
		case k.text == "" && name == victim:
			assert.ErrorIs(t, got.err, context.DeadlineExceeded)
		case k.text != "" && hurt[name]:
			var err *stage.Error
			require.ErrorAs(t, got.err, &err, "request %d", name)
			assert.Equal(t, at.Stage, err.Stage)
			assert.Equal(t, at.Layers, err.Layers)
			assert.Equal(t, at.Device, err.Device)
			assert.ErrorContains(t, got.err, k.text)
			assert.True(t, slices.Equal(want[:len(got.tokens)], got.tokens), "what was written before was right")
		case name == victim:
			assert.NoError(t, got.err)
			assert.Equal(t, want[:victimTokens], got.tokens)
		default:
			assert.NoError(t, got.err, "request %d", name)
			assert.Equal(t, want, got.tokens, "request %d", name)
		}
	}
	if m.first == nil { // all of it still works
		prompt := []int32{499, 7, 8}
		got, err := e.Generate(t.Context(), generate.Request{Tokens: prompt, MaxTokens: 5, IgnoreEnd: true})
		require.NoError(t, err)
		assert.Equal(t, simulated.Continue(faultsStages, vocab, prompt, 5), got.Tokens)
		counts := e.Stats()
		assert.Zero(t, counts.Running+counts.Waiting)
		assert.Equal(t, counts.Pages, counts.FreePages)
		assert.Equal(t, m.scarce, counts.Preempted > 0)
	}
	require.NoError(t, e.Close())
	for i := range faultsStages {
		assert.Zero(t, allocated.Bytes(simulated.Name(i)))
	}
}

// A layer that can't be loaded is named, and nothing is left of those that were.
func TestLoadFaults(t *testing.T) {
	for at := range faultsStages {
		for _, k := range kinds {
			if k.name == "goexit" {
				continue // it would end the caller's own goroutine, and this test's
			}
			t.Run(fmt.Sprintf("stage %d/%s", at, k.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					l := equal(faultsStages, time.Millisecond, 0, 1)
					m := imitate(t, l, func(layers []*simulated.Layer) {
						layers[at].Loading = func(q kernels.Queue) error { return k.fail(ctx, q) }
					})
					_, err := generate.New(ctx, m, l.on())
					var failed *stage.Error
					require.ErrorAs(t, err, &failed)
					assert.Equal(t, at, failed.Stage)
					assert.Equal(t, fmt.Sprintf("block %d", at), failed.Layer)
					assert.Equal(t, simulated.Name(at), failed.Device)
					if k.text == "" {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					} else {
						assert.ErrorContains(t, err, k.text)
					}
					for i := range faultsStages {
						assert.Zero(t, allocated.Bytes(simulated.Name(i)))
					}
				})
			})
		}
	}
}
