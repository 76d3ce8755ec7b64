package main

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

// generationFlags say how a text is continued.
type generationFlags struct {
	flags     *pflag.FlagSet // to see which were given
	maxTokens int
	sampling  generate.Sampling
	stop      []string
	raw       bool
	logProbs  logProbs
}

// add defines the flags. The default seed is drawn here, so that it can be printed.
func (f *generationFlags) add(flags *pflag.FlagSet) {
	defer group(flags, "Generation")()
	f.flags = flags
	f.sampling.Seed = uint64(rand.Uint32())
	flags.IntVarP(&f.maxTokens, "max-tokens", "n", 128, "most tokens to add, `N`")
	s := &f.sampling
	flags.Float64Var(&s.Temperature, "temp", 0.8, "temperature `T`: 0 takes the most likely token, more is freer")
	flags.IntVar(&s.TopK, "top-k", 40, "draw from the `K` most likely tokens; 0: all")
	flags.Float64Var(&s.TopP, "top-p", 0.95, "draw from the most likely tokens that together reach `P`; 1: all; 0: the most likely one")
	flags.Float64Var(&s.MinP, "min-p", 0.05, "draw from tokens at least `P` times as likely as the first; 0: all")
	flags.Float64Var(&s.RepeatPenalty, "repeat-penalty", 1, "above 1: makes the last 64 tokens less likely, by `X`; 1: off")
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "the same `N` gives the same text")
	flags.Lookup("seed").DefValue = "random"
	flags.StringArrayVar(&f.stop, "stop", nil, "end before `TEXT`; may be given several times")
	flags.BoolVar(&f.raw, "raw", false, "the prompt as it is, without a chat template: say so for a model that has one")
}

// request returns the flags as a request for an engine. Values that are out of range
// are usage errors.
func (f *generationFlags) request() (generate.Request, error) {
	if f.maxTokens < 1 {
		return generate.Request{}, usage("-n %d: it may be 1 or more", f.maxTokens)
	}
	s := f.sampling
	if s.RepeatPenalty == 0 {
		return generate.Request{}, usage("repeat penalty of 0: it may be above 0; 1 is off")
	}
	if s.TopP == 0 { // a zero that was written: to the engine, 0 is not set
		s.TopP = sampling.TopPZero
	}
	if err := s.Check(); err != nil {
		return generate.Request{}, usageError{err}
	}
	for _, text := range f.stop {
		if text == "" {
			return generate.Request{}, usage("an empty --stop text would stop at once: leave it out")
		}
	}
	return generate.Request{
		MaxTokens: f.maxTokens, Stop: f.stop, Sampling: s,
		LogProbs: f.logProbs.wanted, TopLogProbs: f.logProbs.top,
	}, nil
}

// drawn reports whether the seed was drawn at random and the text depends on it.
func (f *generationFlags) drawn() bool {
	return f.sampling.Temperature > 0 && !f.flags.Changed("seed")
}

// warn warns that the prompt is not put into the model's chat template, if the model
// has one, unless --raw is given.
func (f *generationFlags) warn(stderr io.Writer, m *model.Model) {
	if template, ok, _ := m.File().String("tokenizer.chat_template"); ok && template != "" && !f.raw {
		fmt.Fprintln(stderr, "leat: the model has a chat template, which is not applied: the prompt is taken as it is, as --raw says")
	}
}
