package device

import (
	"fmt"
	"strconv"
	"strings"
)

// WhatIf reads a device list like Resolve, for a machine that isn't at hand:
// nothing is looked for. A GPU is called "cuda:0" or the like; "cpu" is one
// device, "cpu/N" are N, "cpu:0-3" has those cores. Each has what its budget says
// as its memory, which may be left out; a percentage has nothing to be of. Each
// has a speed, in CPU cores: where the list gives none, what GuessedSpeed says.
// Whatever is wrong with the list is a *ListError.
func WhatIf(list string) ([]Place, error) {
	return placesOf(list, func(c Choice) ([]Place, error) {
		if c.Name == Auto {
			return nil, &ListError{c.Name, "there is no machine to look at: name the devices"}
		}
		budget, err := c.Budget.Bytes(0)
		if err != nil {
			return nil, &ListError{c.Name, "a share of a memory that isn't there: give a size"}
		}
		kind, err := kindOf(c.Name)
		if err != nil {
			return nil, err
		}
		names, guess, err := imagine(c.Name, kind)
		if err != nil {
			return nil, err
		}
		at := Place{Budget: budget, Speed: c.Speed}
		if at.Speed == 0 {
			at.Speed, at.Guessed = guess, true
		}
		var places []Place
		for _, name := range names {
			at.Info = Info{Name: name, Kind: kind, Description: "imagined", Memory: max(0, budget), Free: max(0, budget), HostMemory: kind == CPU, Imagined: true}
			places = append(places, at)
		}
		return places, nil
	})
}

// guessedSpeeds is the memory rate of a common device of each kind, counted in
// the 10 GB a second that one core of a CPU is taken to read: 500 GB/s, 400 GB/s
// and 200 GB/s for a GPU, and 80 GB/s for a CPU with two channels of DDR5.
var guessedSpeeds = map[Kind]float64{CUDA: 50, ROCm: 40, Metal: 20, CPU: imaginedCores}

const (
	imaginedCores = 8    // of an imagined "cpu", which doesn't say how many
	mostImagined  = 4096 // cores, or devices that "cpu/N" makes
)

// GuessedSpeed is how many CPU cores an imagined device of a kind is taken to be
// worth where nobody says: no more than a guess, since the fastest of a kind may
// be ten times as fast as the slowest.
func GuessedSpeed(k Kind) float64 { return guessedSpeeds[k] }

// imagine returns the devices that a name means, and the speed of each.
func imagine(name string, kind Kind) (names []string, speed float64, err error) {
	wrong := func(reason string) ([]string, float64, error) { return nil, 0, &ListError{name, reason} }
	rest := strings.TrimPrefix(name, kind.String())
	spec, numbered := strings.CutPrefix(rest, ":")
	switch {
	case kind != CPU && !numbered:
		return wrong(fmt.Sprintf("name one device, such as %s:0", kind))
	case kind != CPU:
		if _, ok := digits(spec); !ok {
			return wrong(fmt.Sprintf("after the : stands a device's number, as in %s:0", kind))
		}
	case numbered:
		n, ok := coresIn(spec)
		if !ok {
			return wrong("after the : stand cores, as in cpu:1, cpu:0-3 or cpu:0+2-3, each once")
		}
		return []string{name}, float64(n), nil
	case rest != "":
		n, ok := digits(strings.TrimPrefix(rest, "/"))
		if !ok || n < 1 {
			return wrong(fmt.Sprintf("after the / stands a number of devices, from 1 to %d", mostImagined))
		}
		for i := range n {
			names = append(names, fmt.Sprintf("%s:%d", kind, i))
		}
		return names, imaginedCores / float64(n), nil
	}
	return []string{name}, GuessedSpeed(kind), nil
}

// coresIn counts the cores of a specification like 0+2-3.
func coresIn(spec string) (int, bool) {
	seen := map[int]bool{}
	for part := range strings.SplitSeq(spec, "+") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, okFrom := digits(first)
		to, okTo := digits(last)
		if !okFrom || !okTo || to < from {
			return 0, false
		}
		for core := from; core <= to; core++ {
			if seen[core] {
				return 0, false
			}
			seen[core] = true
		}
	}
	return len(seen), true
}

// digits reads a whole number that may stand in the name of an imagined device.
func digits(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n <= mostImagined
}
