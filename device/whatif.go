package device

import (
	"fmt"
	"strconv"
	"strings"
)

// WhatIf reads a device list like Resolve, for a machine that isn't at hand:
// nothing is looked for. A GPU's name is "cuda:0" or the like; "cpu" is one
// device, "cpu/N" are N, and "cpu:0-3" has those cores. Each has what its budget
// says as its memory, which may be left out, and its speed; a percentage has
// nothing to be of.
func WhatIf(list string) ([]Place, error) {
	choices, err := ParseList(list)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, c := range choices {
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
		names := []string{c.Name}
		if n, ok := divided(c.Name); !ok && strings.Contains(c.Name, "/") {
			return nil, &ListError{c.Name, "after the / stands a number of devices, from 1 to 4096"}
		} else if ok {
			names = nil
			for i := range n {
				names = append(names, fmt.Sprintf("cpu:%d", i))
			}
		}
		for _, name := range names {
			info := Info{Name: name, Kind: kind, Description: "imagined", Memory: max(0, budget), Free: max(0, budget)}
			places = append(places, Place{info, budget, c.Speed})
		}
	}
	return places, nil
}

// divided returns the N of "cpu/N".
func divided(name string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(name, CPU.String()+"/")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && n <= 4096
}
