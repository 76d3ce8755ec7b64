package main

import (
	"slices"
	"strconv"
)

// mark is a part of a bar that may be named.
type mark struct {
	name     string
	short    string // where the part is narrower than its name
	block    bool
	from, to float64
}

// label is a text in the middle of x.
type label struct {
	x    float64
	text string
}

// labels names what there is room for between left and right, so that no two
// names touch. What isn't a block comes first, then the first and the last block,
// then as many between them as fit at round numbers.
func labels(marks []mark, f font, left, right float64) []label {
	const gap = 6
	var placed []label
	try := func(m mark) {
		if m.to <= m.from {
			return
		}
		l := label{(m.from + m.to) / 2, m.name}
		if f.width(l.text) > m.to-m.from {
			l.text = m.short
		}
		half := f.width(l.text) / 2
		l.x = min(max(l.x, left+half), right-half)
		for _, p := range placed {
			if l.x-p.x < half+gap+f.width(p.text)/2 && p.x-l.x < half+gap+f.width(p.text)/2 {
				return
			}
		}
		placed = append(placed, l)
	}
	var blocks []mark
	for _, m := range marks {
		if m.block {
			blocks = append(blocks, m)
		} else {
			try(m)
		}
	}
	if len(blocks) > 0 {
		last := blocks[len(blocks)-1]
		try(blocks[0])
		try(last)
		step := roundStep(blocks, f.width(last.name)+gap)
		for _, b := range blocks {
			if n, _ := strconv.Atoi(b.name); n%step == 0 {
				try(b)
			}
		}
	}
	slices.SortFunc(placed, func(a, b label) int { return int(min(1, max(-1, a.x-b.x))) })
	return placed
}

// roundStep is how many blocks apart numbers of that width may stand.
func roundStep(blocks []mark, width float64) int {
	all := blocks[len(blocks)-1].to - blocks[0].from
	for step := 1; ; step *= 10 {
		for _, n := range []int{step, 2 * step, 5 * step} {
			if n >= len(blocks) || all/float64(len(blocks))*float64(n) >= width {
				return n
			}
		}
	}
}
