package device

import (
	"fmt"
	"strconv"
	"strings"
)

// WhatIf parses a device list for a plan on another machine, and returns places on devices
// that need not exist: their Info has Imagined set. A GPU has a name such as "cuda:0";
// "cpu" is one device, "cpu/N" is N devices, "cpu:0-3" is a device with those cores. A
// device's budget, if given, becomes its memory; a percentage is an error, as there is no
// free memory to relate it to. A place's Speed is in CPU cores: if the list doesn't give
// it, it is a guess, such as GuessedSpeed's. Any error is a *ListError.
func WhatIf(list string) ([]Place, error) {
	return placesOf(list, func(c Choice) ([]Place, error) {
		if c.Name == Auto {
			return nil, &ListError{c.Name, "there is no machine whose devices could be discovered: name each device"}
		}
		budget, err := c.Budget.Bytes(0)
		if err != nil {
			return nil, &ListError{c.Name, "the free memory of an imagined device isn't known, so its budget can't be a percentage: give a size"}
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

// guessedSpeeds is the memory bandwidth of a common device of each kind, in units of 10
// GB/s, the assumed bandwidth of one CPU core: 500 GB/s, 400 GB/s and 200 GB/s for the
// GPUs, and 80 GB/s for a CPU with two channels of DDR5.
var guessedSpeeds = map[Kind]float64{CUDA: 50, ROCm: 40, Metal: 20, CPU: imaginedCores}

const (
	imaginedCores = 8    // of an imagined "cpu", whose name has no number of cores
	mostImagined  = 4096 // the highest core or device number, and the most devices of "cpu/N"
)

// GuessedSpeed returns the assumed speed, in CPU cores, of an imagined device of a kind
// for which the device list gives no speed. It is only a guess: the fastest device of a
// kind may be ten times as fast as the slowest.
func GuessedSpeed(k Kind) float64 { return guessedSpeeds[k] }

// imagine returns the names of the devices that a name stands for, and the speed of each.
func imagine(name string, kind Kind) (names []string, speed float64, err error) {
	wrong := func(reason string) ([]string, float64, error) { return nil, 0, &ListError{name, reason} }
	rest := strings.TrimPrefix(name, kind.String())
	spec, numbered := strings.CutPrefix(rest, ":")
	switch {
	case kind != CPU && !numbered:
		return wrong(fmt.Sprintf("name one device, such as %s:0", kind))
	case kind != CPU:
		if _, ok := digits(spec); !ok {
			return wrong(fmt.Sprintf("the colon must be followed by a device's number, as in %s:0", kind))
		}
	case numbered:
		n, ok := coresIn(spec)
		if !ok {
			return wrong("the colon must be followed by cores, each named once, as in cpu:1, cpu:0-3 or cpu:0+2-3")
		}
		return []string{name}, float64(n), nil
	case rest != "":
		n, ok := digits(strings.TrimPrefix(rest, "/"))
		if !ok || n < 1 {
			return wrong(fmt.Sprintf("the slash must be followed by the number of devices, from 1 to %d", mostImagined))
		}
		for i := range n {
			names = append(names, fmt.Sprintf("%s:%d", kind, i))
		}
		return names, imaginedCores / float64(n), nil
	}
	return []string{name}, GuessedSpeed(kind), nil
}

// coresIn returns the number of cores in a specification such as "0+2-3". It returns false
// if the specification can't be parsed or has a core twice.
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

// digits parses a number in the name of an imagined device. It returns false if s is not a
// decimal number of at most mostImagined.
func digits(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n <= mostImagined
}
