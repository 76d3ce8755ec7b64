package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate"
)

// bench runs tests on one engine.
type bench struct {
	engine *generate.Engine
	words  []int32
	random *rand.Rand
}

func newBench(e *generate.Engine) *bench {
	return &bench{e, words(e.Tokenizer()), rand.New(rand.NewPCG(1, 2))}
}

// words are the tokens that prompts are made of: those that have a text, or all
// where none has.
func words(t tokenizer.Tokenizer) []int32 {
	var some, all []int32
	var text []byte
	for id := range int32(t.Size()) {
		all = append(all, id)
		if text = t.AppendPiece(text[:0], id); len(text) > 0 && !t.IsEnd(id) {
			some = append(some, id)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// prompt returns n tokens, others at each call, so that no work can be shared.
func (b *bench) prompt(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = b.words[b.random.IntN(len(b.words))]
	}
	return tokens
}

// context is the longest sequence that a test may have. The token drawn after
// it, which tests wait for, takes the last place of the engine's.
func (b *bench) context() int { return b.engine.Plan().Context - 1 }

// unfit says why the engine has no room for a test, "" where it has.
func (b *bench) unfit(t benchTest) string {
	p, length := b.engine.Plan(), t.length()
	pages := t.Concurrency * ((length + 1 + kernels.PageTokens - 1) / kernels.PageTokens)
	switch {
	case length > b.context():
		return fmt.Sprintf("its sequences have %d tokens, the context holds %d (--ctx)", length, b.context())
	case t.Concurrency > p.MaxSeqs:
		return fmt.Sprintf("%d sequences may run at once (--max-seqs)", p.MaxSeqs)
	case pages > p.Pages:
		return fmt.Sprintf("it takes %d pages of keys and values, there are %d (--kv-memory)", pages, p.Pages)
	}
	return ""
}

// warmUp runs a little of everything, unmeasured.
func (b *bench) warmUp(ctx context.Context) error {
	_, err := b.time(ctx, 1, min(decodePrompt, b.context()), 4)
	return err
}

// measure runs a test repeat times and returns the median of its tokens a
// second. turn is told each time.
func (b *bench) measure(ctx context.Context, t benchTest, repeat int, turn func(i int)) (float64, error) {
	prompt, most := t.Tokens, 1
	if t.Test == decodeTest {
		prompt, most = decodePrompt, 1+t.Tokens
	}
	var begin time.Duration // what first tokens take at least, and doesn't count
	times := make([]time.Duration, repeat)
	for i := range times {
		turn(i)
		if t.Test == decodeTest {
			first, err := b.time(ctx, t.Concurrency, prompt, 1)
			if err != nil {
				return 0, err
			}
			if i == 0 || first < begin {
				begin = first
			}
		}
		var err error
		if times[i], err = b.time(ctx, t.Concurrency, prompt, most); err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	took := (times[(repeat-1)/2] + times[repeat/2]) / 2
	if took > begin {
		took -= begin
	}
	return perSecond(t.Tokens*t.Concurrency, took), nil
}

// time returns how long it takes to add most tokens to each of n prompts.
func (b *bench) time(ctx context.Context, n, prompt, most int) (time.Duration, error) {
	prompts := make([][]int32, n)
	for i := range prompts {
		prompts[i] = b.prompt(prompt)
	}
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for _, p := range prompts {
		g.Go(func() error {
			_, err := b.engine.Generate(ctx, generate.Request{Tokens: p, MaxTokens: most, IgnoreEnd: true})
			return err
		})
	}
	err := g.Wait()
	return time.Since(began), err
}
