package main

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate"
)

// openings are how the demo's stories begin, in the words of the texts that the
// model has learned from.
var openings = []string{
	"Once upon a time, there was a little girl named Lily.",
	"One day, a boy named Tim went to the park.",
	"There was a big dog who liked to run.",
	"Lily and Ben were best friends.",
	"Once there was a little bird in a tree.",
	"It was a sunny day. Mom and Sue went out to play.",
	"A little cat was very sad.",
	"Tom had a red ball.",
}

// roundOf is the requests of round n, otherwise like the one given. Each round
// has seeds of its own, so that it tells new stories. Round 0 is the one that
// is shown and compared.
func roundOf(n int, like generate.Request) []generate.Request {
	requests := make([]generate.Request, len(openings))
	for i, text := range openings {
		requests[i] = like
		requests[i].Prompt = text
		requests[i].Seed = like.Seed + uint64(n*len(openings)+i)
	}
	return requests
}

// follower is told every step of every story, with the story so far: from one
// goroutine a story, of which there may be several at once.
type follower func(story int, t generate.Token, so generate.Result)

// tell has all the stories written at once and waits for the last. With an
// error it returns what was written until then. each may be nil.
func tell(ctx context.Context, e *generate.Engine, requests []generate.Request, each follower) ([]generate.Result, error) {
	stories := make([]generate.Result, len(requests))
	g, ctx := errgroup.WithContext(ctx)
	for i, r := range requests {
		g.Go(func() error { return write(ctx, e, i, r, &stories[i], each) })
	}
	return stories, g.Wait()
}

// tellOneByOne is tell for users who come one after the other: a story is begun
// when the one before it is at its end.
func tellOneByOne(ctx context.Context, e *generate.Engine, requests []generate.Request, each follower) ([]generate.Result, error) {
	stories := make([]generate.Result, len(requests))
	for i, r := range requests {
		if err := write(ctx, e, i, r, &stories[i], each); err != nil {
			return stories, err
		}
	}
	return stories, nil
}

// write has one story written.
func write(ctx context.Context, e *generate.Engine, i int, r generate.Request, s *generate.Result, each follower) error {
	s.Prompt = e.Tokenizer().Prompt(tokenizer.WithControl(r.Prompt))
	r.Prompt, r.Tokens = "", s.Prompt
	for t, err := range e.Stream(ctx, r) {
		s.Text += t.Text
		s.Finish = t.Finish
		if t.ID >= 0 {
			s.Tokens = append(s.Tokens, t.ID)
		}
		if err != nil {
			return fmt.Errorf("story %d: %w", i+1, err)
		}
		if each != nil {
			each(i, t, *s)
		}
	}
	return nil
}

// tokensOf counts what was written, without the openings.
func tokensOf(stories []generate.Result) int {
	n := 0
	for _, s := range stories {
		n += len(s.Tokens)
	}
	return n
}

// sameTexts says where two tellings of the same stories differ, if they do.
func sameTexts(want, got []generate.Result) error {
	for i := range want {
		a, b := want[i].Tokens, got[i].Tokens
		if slices.Equal(a, b) {
			continue
		}
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		return fmt.Errorf("story %d differs from its token %d on", i+1, at+1)
	}
	return nil
}
