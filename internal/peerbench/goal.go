package main

import (
	"fmt"

	"github.com/leat-dev/leat/internal/ceiling"
)

// row is a type of weights, and how it is measured.
type row struct {
	typ            string
	layers, rounds int
	named          bool
	// What Leat's speed is to be, as multiples of the peer's; 0: see goal.
	prefill, many, one float64
}

const (
	wholeLayers = 16
	shortLayers = 4
)

// rows are all types, those that most files have first.
var rows = func() []row {
	all := []row{
		{typ: "Q8_0", prefill: 2.8, many: 3.0, one: 1.5},
		{typ: "Q4_0", prefill: 2.3, many: 2.3, one: 1.15},
		{typ: "Q4_K", prefill: 2.0, many: 2.2, one: 1.1},
		{typ: "Q5_K", prefill: 2.0, many: 2.2, one: 1.1},
		{typ: "Q6_K", prefill: 2.0, many: 2.2, one: 1.1},
		{typ: "IQ4_XS", prefill: 2.0, many: 2.2, one: 1.1},
		{typ: "MXFP4", prefill: 2.0, many: 2.2, one: 1.1},
	}
	for i := range all {
		all[i].layers, all[i].rounds, all[i].named = wholeLayers, 3, true
	}
	for _, t := range []string{
		"Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "IQ4_NL", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS",
		"IQ1_M", "IQ1_S", "TQ1_0", "TQ2_0", "NVFP4", "Q1_0", "Q2_0",
	} {
		all = append(all, row{typ: t, layers: shortLayers, rounds: 1, prefill: 1.5, many: 1.5, one: 1})
	}
	for _, t := range []string{"F16", "BF16", "F32"} { // BF16 is measured by F16
		all = append(all, row{typ: t, layers: shortLayers, rounds: 1, one: 1})
	}
	return all
}()

func rowOf(typ string) (row, bool) {
	for _, r := range rows {
		if r.typ == typ {
			return r, true
		}
	}
	return row{}, false
}

// names returns the names of all types, or of the named ones.
func names(named bool) []string {
	var list []string
	for _, r := range rows {
		if r.named || !named {
			list = append(list, r.typ)
		}
	}
	return list
}

// The tests, by the names that the peer's script gives them.
const (
	prefill128 = "pp128"
	prefill512 = "pp512"
	decode1    = "tg1"
	decode16   = "tg16"
)

var tests = []struct{ name, text string }{
	{prefill128, "prefill 128"},
	{prefill512, "prefill 512"},
	{decode1, "decode 1"},
	{decode16, "decode 16"},
}

// goal is what a speed is to be. It is met where any of its parts is.
type goal struct {
	ratio   float64 // to the peer's speed
	share   float64 // of the ceiling
	ceiling string
	f16     float64 // to the speed of F16 in the same run
}

// goal returns what the speed of a test is to be at a SIMD level.
func (r row) goal(test, level string) goal {
	g := goal{ceiling: ceilingOf(r.typ, test, level)}
	prefill := test == prefill128 || test == prefill512
	switch {
	case test == decode1:
		g.ratio, g.share = r.one, 0.9
	case level == "avx2" && !r.float():
		g.share = 0.8
	case r.typ == "BF16" && prefill && g.ceiling == ceiling.BF16:
		g.f16 = 1.7
	case r.float() && prefill:
		g.share = 0.95
	case r.float():
		g.share = 0.85
	case prefill:
		g.ratio = r.prefill
	default:
		g.ratio = r.many
	}
	return g
}

// float says whether the weights are floats, multiplied as such.
func (r row) float() bool { return r.typ == "F32" || r.typ == "F16" || r.typ == "BF16" }

// ceilingOf is the rate that bounds a test; "" where none is measured.
func ceilingOf(typ, test, level string) string {
	r := row{typ: typ}
	switch {
	case test == decode1:
		return ceiling.Read
	case level == "avx2" && r.float():
		return ceiling.FMA256
	case level == "avx2":
		return ceiling.BytesAVX2
	case typ == "BF16" && level == "avx512-bf16":
		return ceiling.BF16
	case r.float() && level != "portable":
		return ceiling.FMA
	case level == "avx512-vnni" || level == "avx512-bf16":
		return ceiling.Bytes
	}
	return ""
}

// met says whether a speed is what it is to be, and text says what that is.
func (g goal) met(c cell) bool {
	return g.ratio > 0 && c.Ratio >= g.ratio || g.share > 0 && c.Share >= g.share || g.f16 > 0 && c.F16 >= g.f16
}

func (g goal) String() string {
	share := ""
	if g.share > 0 && g.ceiling != "" {
		share = fmt.Sprintf("%.0f %% of %s", 100*g.share, g.ceiling)
	}
	switch {
	case g.f16 > 0:
		return fmt.Sprintf("%.3g × F16", g.f16)
	case g.ratio > 0 && share != "":
		return fmt.Sprintf("%.3g, or %s", g.ratio, share)
	case g.ratio > 0:
		return fmt.Sprintf("%.3g", g.ratio)
	}
	return share
}
