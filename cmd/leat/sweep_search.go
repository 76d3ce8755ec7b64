package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is the flags that a sweep tries out, each as a command line has it.
// The zero value of one stands for what is done without the flag.
type setting struct {
	devices, inFlight, maxBatch, queue string
}

// flags are those that the setting has, by name.
func (s setting) flags() (names, values []string) {
	for _, f := range []struct{ name, value string }{
		{"devices", s.devices}, {"inflight", s.inFlight}, {"max-batch", s.maxBatch}, {"queue", s.queue},
	} {
		if f.value != "" {
			names, values = append(names, f.name), append(values, f.value)
		}
	}
	return names, values
}

func (s setting) String() string {
	names, values := s.flags()
	var words []string
	for i, name := range names {
		words = append(words, "--"+name, shellWord(values[i]))
	}
	if len(words) == 0 {
		return "the flags as given"
	}
	return strings.Join(words, " ")
}

// trial is a setting and how fast it was.
type trial struct {
	setting
	stages  []string  // their devices
	flights int       // batches in flight
	speeds  []float64 // tokens a second, one a sample
}

func (t *trial) median() float64 { return median(t.speeds) }

// median is 0 of nothing.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	switch n := len(sorted); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	default:
		return sorted[n/2]
	}
}

// search looks for the fastest setting. It tries all device lists, takes the best,
// and changes one flag after the other as long as that helps. What was tried isn't
// tried again.
type search struct {
	lists    []string // device lists beside the one given
	batches  []int    // sizes
	queues   []int
	inFlight bool // is tried, too

	measure func(context.Context, setting) (*trial, error) // nil where a setting can't be measured
	goOn    func() bool                                    // there is time for more

	trials []*trial // the first is of the flags as given
	tried  map[setting]bool
}

// noise is how much faster a setting must be to count as better: less differs from
// one measurement to the next.
const noise = 1.02

// clearly says that a trial is faster than a slower one, and not by luck: three
// quarters of its samples are above three quarters of the other's.
func (t *trial) clearly(slower *trial) bool {
	a, b := slices.Sorted(slices.Values(t.speeds)), slices.Sorted(slices.Values(slower.speeds))
	return t.median() > noise*slower.median() && a[len(a)/4] > b[len(b)-1-len(b)/4]
}

// run searches until nothing helps or time is up, and returns the best.
func (s *search) run(ctx context.Context) (*trial, error) {
	s.tried = map[setting]bool{}
	best, err := s.try(ctx, nil, setting{})
	for _, list := range s.lists {
		if err == nil {
			best, err = s.try(ctx, best, setting{devices: list})
		}
	}
	for {
		if err != nil || best == nil {
			return best, err
		}
		before := best
		for _, change := range s.changes(best) {
			if best, err = s.try(ctx, best, change(best.setting)); err != nil {
				return best, err
			}
		}
		if best == before {
			return best, nil
		}
	}
}

// changes are the ways to change one flag of a setting.
func (s *search) changes(t *trial) (all []func(setting) setting) {
	text := func(n int) string { return strconv.Itoa(n) }
	if n := t.flights; s.inFlight {
		for _, value := range []string{"", text(n), text(n + 1), text(2 * n), text(4 * n)} {
			all = append(all, func(s setting) setting { s.inFlight = value; return s })
		}
	}
	for i := range s.batches {
		all = append(all, func(was setting) setting { was.maxBatch = text(s.batches[i]); return was })
	}
	for i := range s.queues {
		all = append(all, func(was setting) setting { was.queue = text(s.queues[i]); return was })
	}
	return all
}

// try measures a setting, unless it was, and returns the better one.
func (s *search) try(ctx context.Context, best *trial, next setting) (*trial, error) {
	if s.tried[next] || len(s.trials) > 0 && !s.goOn() {
		return best, nil
	}
	s.tried[next] = true
	t, err := s.measure(ctx, next)
	if err != nil || t == nil {
		return best, err
	}
	s.trials = append(s.trials, t)
	if best == nil || t.median() > noise*best.median() {
		best = t
	}
	return best, nil
}

// ranked is the trials, the fastest first.
func (s *search) ranked() []*trial {
	all := slices.Clone(s.trials)
	slices.SortStableFunc(all, func(a, b *trial) int {
		switch {
		case a.median() > b.median():
			return -1
		case a.median() < b.median():
			return 1
		}
		return 0
	})
	return all
}

// given is the trial of the flags as given, nil where these can't be measured.
func (s *search) given() *trial {
	if len(s.trials) > 0 && s.trials[0].setting == (setting{}) {
		return s.trials[0]
	}
	return nil
}

// confirm measures those that were ahead once more, so that none of them is ahead
// by luck alone, and returns the best: the flags as given, unless another is
// clearly faster.
func (s *search) confirm(ctx context.Context) (*trial, error) {
	again := s.ranked()
	again = again[:min(3, len(again))]
	if t := s.given(); t != nil && !slices.Contains(again, t) {
		again = append(again, t)
	}
	for _, t := range again {
		if !s.goOn() {
			break
		}
		more, err := s.measure(ctx, t.setting)
		if err != nil {
			return nil, err
		}
		if more != nil {
			t.speeds = append(t.speeds, more.speeds...)
		}
	}
	best := s.ranked()[0]
	if given := s.given(); given != nil && !best.clearly(given) {
		best = given
	}
	return best, nil
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return fmt.Sprintf("'%s'", strings.ReplaceAll(text, "'", `'\''`))
}
