package generate

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// NoFit says that a model doesn't fit its devices, and what would.
type NoFit struct {
	Err  error    // wraps packer.ErrNoFit: by how much, on which device
	Ways []WayOut // the cheapest first, at most three
}

// WayOut is a change after which the model fits.
type WayOut struct {
	Flag  string // as the command has it: "--ctx 2048"
	Bytes int64  // what the model takes then, on all devices
	Lost  string // what it costs: "sequences of up to 2048 tokens"
}

// Error implements error.
func (e *NoFit) Error() string {
	if len(e.Ways) == 0 {
		return e.Err.Error() + ": a shorter context, a smaller cache or fewer sequences alone would not help: use more or larger devices, or smaller weights"
	}
	ways := make([]string, len(e.Ways))
	for i, w := range e.Ways {
		ways[i] = fmt.Sprintf("%s (%s in all; %s)", w.Flag, device.FormatSize(w.Bytes), w.Lost)
	}
	return e.Err.Error() + "; it fits with " + strings.Join(ways, ", or ")
}

// Unwrap returns what doesn't fit.
func (e *NoFit) Unwrap() error { return e.Err }

// waysOut makes err, if it says that the model doesn't fit, say what would.
func (p *Plan) waysOut(err error) error {
	if !errors.Is(err, packer.ErrNoFit) {
		return err
	}
	e := &NoFit{Err: err}
	try := func(flag, lost string, change func(*Plan)) bool {
		other := &Plan{model: p.model, config: p.config, site: p.site, MaxSeqs: p.MaxSeqs, Context: p.Context}
		change(other)
		if other.place() != nil {
			return false
		}
		e.Ways = append(e.Ways, WayOut{flag, other.bytes(), lost})
		return true
	}
	for _, kv := range []kernels.Type{kernels.F16, kernels.Q8_0} {
		if kv <= p.config.kv {
			continue // in the order of the types' sizes
		}
		if try("--kv "+strings.ToLower(kv.String()), "keys and values rounded to "+kv.String(), func(o *Plan) { o.config.kv = kv }) {
			break
		}
	}
	if p.config.kvMemory >= 0 {
		try("no --kv-memory", "as much for keys and values as one sequence needs, or more where there is room", func(o *Plan) { o.config.kvMemory = -1 })
	}
	if n := p.most(p.MaxSeqs-1, func(o *Plan, n int) { o.MaxSeqs = n }); n > 0 {
		try(fmt.Sprintf("--max-seqs %d", n), fmt.Sprintf("%d at once instead of %d", n, p.MaxSeqs), func(o *Plan) { o.MaxSeqs = n })
	}
	const step = kernels.PageTokens
	if n := step * p.most((p.Context-1)/step, func(o *Plan, n int) { o.Context = n * step }); n > 0 {
		try(fmt.Sprintf("--ctx %d", n), fmt.Sprintf("sequences of up to %d tokens instead of %d", n, p.Context), func(o *Plan) { o.Context = n })
	}
	slices.SortStableFunc(e.Ways, func(a, b WayOut) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	e.Ways = e.Ways[:min(3, len(e.Ways))]
	return e
}

// most returns the largest n up to limit with which the plan fits, 0 if none.
func (p *Plan) most(limit int, change func(o *Plan, n int)) int {
	return sort.Search(limit, func(i int) bool {
		o := &Plan{model: p.model, config: p.config, site: p.site, MaxSeqs: p.MaxSeqs, Context: p.Context}
		change(o, i+1)
		return o.least() != nil
	})
}

// bytes is what all stages hold together.
func (p *Plan) bytes() (sum int64) {
	for _, s := range p.Stages {
		sum += s.Bytes()
	}
	return sum
}
